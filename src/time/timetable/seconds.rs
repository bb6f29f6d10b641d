//! At which seconds of its minutes an event is due.

/// Bit n stands for second n. The first is always among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seconds(u64);

impl Seconds {
    /// The start of the minute alone.
    pub(crate) const FIRST: Self = Self(1);

    /// Every `n` seconds; `None`: the minute would end with an interval that is shorter than the others.
    pub(crate) fn every_nth(n: u32) -> Option<Self> {
        let divides = n != 0 && 60 % n == 0;
        divides.then(|| Self((0..60 / n).fold(0, |bits, at| bits | 1 << (at * n))))
    }

    /// The last of its seconds up to this one.
    pub(crate) fn at_or_before(self, second: u32) -> u32 {
        (self.0 & (u64::MAX >> (63 - second.min(59)))).ilog2()
    }

    /// The first of its seconds from this one on; `None`: there is none in this minute.
    pub(crate) fn at_or_after(self, second: u32) -> Option<u32> {
        let later = self.0 & (u64::MAX << second.min(60));
        (later != 0).then(|| later.trailing_zeros())
    }

    /// The time between two of them, in seconds; 60 if there is only one.
    pub(crate) fn interval(self) -> u32 {
        60 / self.0.count_ones()
    }

    /// In ascending order.
    pub(crate) fn numbers(self) -> impl Iterator<Item = u32> {
        (0..60).filter(move |second| self.0 >> second & 1 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_lasts_until_the_next_begins() {
        for n in [1, 2, 5, 10, 15, 20, 30, 60] {
            let seconds = Seconds::every_nth(n).unwrap();
            for second in 0..60 {
                assert_eq!(seconds.at_or_before(second), second / n * n);
                let next = (second / n + 1) * n;
                assert_eq!(seconds.at_or_after(second + 1), (next < 60).then_some(next));
            }
            assert_eq!(seconds.interval(), n);
            // A leap second lies in the last slot.
            assert_eq!(seconds.at_or_before(60), 60 - n);
        }
        assert_eq!(Seconds::every_nth(60), Some(Seconds::FIRST));
        assert_eq!((0..=1000).filter(|n| Seconds::every_nth(*n).is_some()).sum::<u32>(), 168, "the divisors of 60");
    }
}
