//! The budget that reading and comparing are charged to: a bound on time that no clock decides.

/// Steps left. One is about the work of multiplying two small terms, below a microsecond.
#[derive(Debug, Clone)]
pub struct Steps {
    left: u64,
    allowed: u64,
}

/// The budget is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exhausted;

impl Steps {
    /// What comparing two answers may cost: far above what honest ones need, and below a tenth of a second.
    pub const DEFAULT: u64 = 200_000;

    /// A budget of so many steps.
    #[must_use]
    pub const fn new(allowed: u64) -> Self {
        Self { left: allowed, allowed }
    }

    /// How many steps were taken.
    #[must_use]
    pub const fn taken(&self) -> u64 {
        self.allowed - self.left
    }

    pub(crate) const fn take(&mut self, steps: u64) -> Result<(), Exhausted> {
        match self.left.checked_sub(steps) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(Exhausted)
            }
        }
    }
}

impl Default for Steps {
    fn default() -> Self {
        Self::new(Self::DEFAULT)
    }
}
