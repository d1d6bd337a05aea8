//! Lengths on a logarithmic scale: a byte says how long something is to about nine per cent.

/// Classes for each doubling.
const STEPS: f64 = 8.0;

/// The class of a length: 0 for nothing, then eight classes for each doubling, up to 255 for about 4 billion.
#[must_use]
pub fn length_class(length: u64) -> u8 {
    if length == 0 {
        return 0;
    }
    let class = (length as f64).log2().mul_add(STEPS, 1.0).round();
    // In range by the clamp.
    class.clamp(1.0, 255.0) as u8
}

/// The length that a class stands for.
#[must_use]
pub fn class_length(class: u8) -> u64 {
    match class {
        0 => 0,
        class => ((f64::from(class) - 1.0) / STEPS).exp2().round() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_tells_a_length_to_a_tenth_and_keeps_the_order() {
        assert_eq!((length_class(0), class_length(0)), (0, 0));
        let lengths = (1..2_000_u64).chain((1..1_000).map(|step| step * 1_003));
        let mut before = (0, 0);
        for length in lengths {
            let class = length_class(length);
            let told = class_length(class) as f64;
            assert!(
                (told - length as f64).abs() <= (length as f64 * 0.1).max(0.5),
                "{length}: {told}"
            );
            if length > before.0 {
                assert!(class >= before.1);
                before = (length, class);
            }
        }
        assert_eq!(length_class(u64::MAX), 255);
    }
}
