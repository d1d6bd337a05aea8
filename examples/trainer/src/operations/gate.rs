//! The gate of the feed-forward layer: `silu(gate) * up`.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};

use super::{copied, numbers};

/// Multiplies `up` by the sigmoid-weighted `gate`; both of one shape.
pub fn gated_silu(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    gate.apply_op2(up, GatedSilu)
}

struct GatedSilu;

fn sigmoid(value: f32) -> f32 {
    1.0 / (1.0 + (-value).exp())
}

impl CustomOp2 for GatedSilu {
    fn name(&self) -> &'static str {
        "gated-silu"
    }

    fn cpu_fwd(&self, s1: &CpuStorage, l1: &Layout, s2: &CpuStorage, l2: &Layout) -> Result<(CpuStorage, Shape)> {
        let (gate, up) = (numbers(s1, l1)?, numbers(s2, l2)?);
        let result = gate
            .iter()
            .zip(up)
            .map(|(&gate, &up)| gate * sigmoid(gate) * up)
            .collect();
        Ok((CpuStorage::F32(result), l1.shape().clone()))
    }

    fn bwd(&self, gate: &Tensor, up: &Tensor, _: &Tensor, grad: &Tensor) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let (gates, ups, grads) = (copied(gate)?, copied(up)?, copied(grad)?);
        let mut for_gate = Vec::with_capacity(gates.len());
        let mut for_up = Vec::with_capacity(gates.len());
        for ((&gate, &up), &grad) in gates.iter().zip(&ups).zip(&grads) {
            let open = sigmoid(gate);
            for_gate.push(grad * up * open * (1.0 + gate * (1.0 - open)));
            for_up.push(grad * gate * open);
        }
        Ok((
            Some(Tensor::from_vec(for_gate, gate.shape(), gate.device())?),
            Some(Tensor::from_vec(for_up, up.shape(), up.device())?),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check_gradients, random_var};
    use super::*;

    #[test]
    fn gradients_match_differences() {
        let (gate, up) = (random_var(&[3, 4], 1), random_var(&[3, 4], 2));
        check_gradients(&[gate.clone(), up.clone()], || gated_silu(&gate, &up));
    }
}
