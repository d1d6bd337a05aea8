//! Python's seeded random numbers, so that examples drawn here are the ones drawn there.
//!
//! Source: Matsumoto and Nishimura, "Mersenne Twister: a 623-dimensionally equidistributed uniform pseudo-random number
//! generator", 1998; seeding and sampling as CPython's `random.Random(seed).sample` documents them.

const WORDS: usize = 624;
const SHIFT: usize = 397;

/// A generator seeded as `random.Random(seed)`.
#[derive(Debug, Clone)]
pub struct Random {
    state: [u32; WORDS],
    next: usize,
}

impl Random {
    /// Seeds with a non-negative integer.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let (low, high) = (seed as u32, (seed >> 32) as u32);
        let key = [low, high];
        Self::from_key(if high == 0 { &key[..1] } else { &key })
    }

    fn from_key(key: &[u32]) -> Self {
        let mut state = [0_u32; WORDS];
        state[0] = 19_650_218;
        for index in 1..WORDS {
            state[index] = twist(state[index - 1])
                .wrapping_mul(1_812_433_253)
                .wrapping_add(index as u32);
        }
        let (mut at, mut of_key) = (1, 0);
        for _ in 0..WORDS.max(key.len()) {
            let mixed = state[at] ^ twist(state[at - 1]).wrapping_mul(1_664_525);
            state[at] = mixed.wrapping_add(key[of_key]).wrapping_add(of_key as u32);
            (at, of_key) = (at + 1, (of_key + 1) % key.len());
            wrap(&mut state, &mut at);
        }
        for _ in 0..WORDS - 1 {
            let mixed = state[at] ^ twist(state[at - 1]).wrapping_mul(1_566_083_941);
            state[at] = mixed.wrapping_sub(at as u32);
            at += 1;
            wrap(&mut state, &mut at);
        }
        state[0] = 0x8000_0000;
        Self { state, next: WORDS }
    }

    /// The next 32 bits.
    pub fn word(&mut self) -> u32 {
        if self.next == WORDS {
            self.refill();
        }
        let mut word = self.state[self.next];
        self.next += 1;
        word ^= word >> 11;
        word ^= (word << 7) & 0x9d2c_5680;
        word ^= (word << 15) & 0xefc6_0000;
        word ^ (word >> 18)
    }

    fn refill(&mut self) {
        for index in 0..WORDS {
            let next = self.state[(index + 1) % WORDS];
            let joined = (self.state[index] & 0x8000_0000) | (next & 0x7fff_ffff);
            let odd = if joined & 1 == 1 { 0x9908_b0df } else { 0 };
            self.state[index] = self.state[(index + SHIFT) % WORDS] ^ (joined >> 1) ^ odd;
        }
        self.next = 0;
    }

    /// A number below `bound`, which is at least 1 and at most 2^32.
    pub fn below(&mut self, bound: usize) -> usize {
        let bits = usize::BITS - bound.leading_zeros();
        loop {
            let drawn = match bits {
                0 => 0,
                bits @ 1..=32 => (self.word() >> (32 - bits)) as usize,
                bits => self.word() as usize | (((self.word() >> (64 - bits)) as usize) << 32),
            };
            if drawn < bound {
                return drawn;
            }
        }
    }

    /// The places of `count` distinct elements out of `total`, in the order drawn; `None` when there are not as many.
    pub fn sample(&mut self, total: usize, count: usize) -> Option<Vec<usize>> {
        if count > total {
            return None;
        }
        let mut set_size = 21_usize;
        if count > 5 {
            set_size += 4_usize.pow(log_4_ceil(count * 3));
        }
        if total <= set_size {
            let mut pool: Vec<usize> = (0..total).collect();
            let draw = |drawn: usize| {
                let at = self.below(total - drawn);
                let chosen = pool[at];
                pool[at] = pool[total - drawn - 1];
                chosen
            };
            return Some((0..count).map(draw).collect());
        }
        let mut chosen: Vec<usize> = Vec::with_capacity(count);
        while chosen.len() < count {
            let at = self.below(total);
            if !chosen.contains(&at) {
                chosen.push(at);
            }
        }
        Some(chosen)
    }
}

fn twist(word: u32) -> u32 {
    word ^ (word >> 30)
}

fn wrap(state: &mut [u32; WORDS], at: &mut usize) {
    if *at >= WORDS {
        state[0] = state[WORDS - 1];
        *at = 1;
    }
}

/// The smallest power of four that is not below `number`, as its exponent.
fn log_4_ceil(number: usize) -> u32 {
    let mut exponent = 0;
    while 4_usize.pow(exponent) < number {
        exponent += 1;
    }
    exponent
}

#[cfg(test)]
mod tests {
    use super::Random;

    // Values of CPython's `random.Random(seed)`.
    #[test]
    fn words_are_cpythons() {
        let mut random = Random::new(1234);
        let words = [(); 5].map(|()| random.word());
        assert_eq!(
            words,
            [4_150_886_329, 3_342_196_574, 1_892_932_127, 501_869_158, 32_175_636]
        );
        let mut random = Random::new((1 << 40) + 7);
        assert_eq!([(); 2].map(|()| random.word()), [2_635_837_658, 3_209_733_218]);
    }

    #[test]
    fn samples_are_cpythons_one_after_the_other() {
        let mut random = Random::new(1234);
        let drawn = [(); 3].map(|()| random.sample(10, 3).unwrap());
        assert_eq!(drawn, [vec![7, 1, 0], vec![1, 0, 9], vec![1, 5, 3]]);

        let mut random = Random::new(1234);
        assert_eq!(random.sample(1000, 5).unwrap(), [989, 796, 451, 119, 7]);
        assert_eq!(random.sample(1000, 5).unwrap(), [92, 932, 965, 961, 826]);
        assert_eq!(random.sample(1000, 25).unwrap()[..6], [596, 35, 687, 709, 85, 100]);
        assert_eq!(random.sample(90, 8).unwrap(), [1, 64, 62, 31, 8, 85, 69, 59]);
        assert_eq!(random.sample(3, 4), None);
    }

    #[test]
    fn all_of_a_small_pool_are_drawn_in_cpythons_order() {
        let mut random = Random::new((1 << 40) + 7);
        random.word();
        random.word();
        let expected = [20, 18, 15, 8, 4, 12, 17, 11, 5, 6, 7, 10, 19, 3, 13, 9, 16, 1, 0, 2, 14];
        assert_eq!(random.sample(21, 21).unwrap(), expected);
    }
}
