//! Keys and values of one sequence.

/// Per layer one growing array of keys and one of values, `[position][kv head][head_dim]`.
///
/// Room is reserved once for the whole sequence, so a new token costs one copy of its own row.
#[derive(Debug, Default)]
pub(crate) struct KvCache {
    layers: Vec<LayerCache>,
}

/// The part of a cache that belongs to one layer.
#[derive(Debug, Default)]
pub(super) struct LayerCache {
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl KvCache {
    /// An empty cache of `layers` layers with room for `capacity` tokens of `width` values each.
    pub(super) fn with_capacity(layers: usize, width: usize, capacity: usize) -> Self {
        let room = width * capacity;
        let layer = || LayerCache {
            keys: Vec::with_capacity(room),
            values: Vec::with_capacity(room),
        };
        Self {
            layers: (0..layers).map(|_| layer()).collect(),
        }
    }

    /// The given layer's keys and values.
    pub(super) fn layer(&mut self, layer: usize) -> &mut LayerCache {
        &mut self.layers[layer]
    }
}

impl LayerCache {
    /// Stores the key and value of `position` and forgets all later ones.
    pub(super) fn store(&mut self, position: usize, key: &[f32], value: &[f32]) {
        for (buffer, row) in [(&mut self.keys, key), (&mut self.values, value)] {
            buffer.truncate(position * row.len());
            buffer.extend_from_slice(row);
        }
    }

    /// All keys.
    pub(super) fn keys(&self) -> &[f32] {
        &self.keys
    }

    /// All values.
    pub(super) fn values(&self) -> &[f32] {
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storing_a_position_again_overwrites_it() {
        let mut cache = KvCache::with_capacity(1, 2, 4);
        let layer = cache.layer(0);
        layer.store(0, &[1.0, 2.0], &[3.0, 4.0]);
        layer.store(1, &[5.0, 6.0], &[7.0, 8.0]);
        layer.store(1, &[9.0, 9.0], &[0.0, 0.0]);
        assert_eq!(layer.keys(), [1.0, 2.0, 9.0, 9.0]);
        assert_eq!(layer.values(), [3.0, 4.0, 0.0, 0.0]);
    }
}
