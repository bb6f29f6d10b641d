//! The delays between the occurrences of an event and their starts. All servers and all versions compute equal delays.

use std::time::Duration;

/// The delays of one event. Each occurrence has its own delay, from zero to the longest, in whole seconds.
///
/// The random number for a delay is `SplitMix64(FNV-1a(name) ^ occurrence)`, and all delays are equally likely. The
/// delays must never change, because servers with two versions must agree. A test checks some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Jitter {
    seed: u64,
    longest: u32,
}

impl Jitter {
    pub(crate) const NONE: Self = Self { seed: 0, longest: 0 };

    pub(crate) fn new(event: &str, longest: u32) -> Self {
        Self { seed: fnv_1a(event.as_bytes()), longest }
    }

    /// Returns the delay of the occurrence at this second since 1970, in seconds.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the high half of the product is no larger than the longest delay"
    )]
    pub(crate) fn of(self, occurrence: i64) -> i64 {
        let random = split_mix_64(self.seed ^ occurrence.cast_unsigned());
        let high_half = ((u128::from(random) * (u128::from(self.longest) + 1)) >> 64) as u32;
        high_half.into()
    }

    pub(crate) fn longest(self) -> Duration {
        Duration::from_secs(self.longest.into())
    }
}

/// Returns the 64-bit hash FNV-1a, by Fowler, Noll and Vo.
fn fnv_1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Returns the first number of the generator `SplitMix64` for this seed. If any bit of the seed changes, about half of
/// the bits of the number change.
fn split_mix_64(seed: u64) -> u64 {
    let mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hashes_are_those_that_others_publish() {
        assert_eq!(fnv_1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv_1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv_1a(b"foobar"), 0x8594_4171_f739_67e8);
        assert_eq!(split_mix_64(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(split_mix_64(1_234_567), 6_457_827_717_110_365_317);
    }

    #[test]
    fn each_delay_is_as_frequent_as_any_other() {
        for (longest, step) in [(1, 60), (6, 60), (29, 60), (59, 3_600), (299, 86_400)] {
            let jitter = Jitter::new("reports:generate", longest);
            let mut counts = vec![0_i32; longest as usize + 1];
            for number in 0..1_000 * (i64::from(longest) + 1) {
                counts[usize::try_from(jitter.of(number * step)).unwrap()] += 1;
            }
            // The mean is 1,000. Each count may differ from the mean by up to six standard deviations.
            assert!(counts.iter().all(|count| (count - 1_000).abs() < 190), "{longest} {step}: {counts:?}");
        }
    }
}
