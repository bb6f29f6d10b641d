//! Damage to bytes that other programs may write.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// A change of some bytes.
#[derive(Clone, Debug)]
pub(super) enum Damage {
    Flip(Index, u8),
    Put(Index, Vec<u8>),
    Insert(Index, Vec<u8>),
    Cut(Index),
    Remove(Index, usize),
    Double(Index, usize),
    /// The bytes at one place are copied to another.
    Move(Index, Index, usize),
}

impl Damage {
    pub(super) fn any() -> impl Strategy<Value = Self> {
        let at = any::<Index>;
        let piece = || prop_oneof![vec(any::<u8>(), 1..24), (any::<u8>(), 1_usize..700).prop_map(|(b, n)| vec![b; n])];
        prop_oneof![
            4 => (at(), 0_u8..8).prop_map(|(at, bit)| Self::Flip(at, 1 << bit)),
            2 => (at(), piece()).prop_map(|(at, piece)| Self::Put(at, piece)),
            1 => (at(), piece()).prop_map(|(at, piece)| Self::Insert(at, piece)),
            1 => at().prop_map(Self::Cut),
            1 => (at(), 1_usize..600).prop_map(|(at, length)| Self::Remove(at, length)),
            1 => (at(), 1_usize..600).prop_map(|(at, length)| Self::Double(at, length)),
            1 => (at(), at(), 1_usize..600).prop_map(|(from, to, length)| Self::Move(from, to, length)),
        ]
    }

    pub(super) fn some() -> impl Strategy<Value = Vec<Self>> {
        vec(Self::any(), 1..5)
    }

    pub(super) fn all_done_to(bytes: &[u8], damages: &[Self]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        for damage in damages {
            damage.do_to(&mut bytes);
        }
        bytes
    }

    fn do_to(&self, bytes: &mut Vec<u8>) {
        let place = |at: &Index, bytes: &[u8]| at.index(bytes.len() + 1);
        match self {
            Self::Flip(at, bits) if !bytes.is_empty() => {
                let at = at.index(bytes.len());
                bytes[at] ^= bits;
            }
            Self::Flip(..) => {}
            Self::Put(at, piece) => {
                let at = place(at, bytes);
                let end = bytes.len().min(at + piece.len());
                bytes.splice(at..end, piece.iter().copied());
            }
            Self::Insert(at, piece) => {
                let at = place(at, bytes);
                bytes.splice(at..at, piece.iter().copied());
            }
            Self::Cut(at) => bytes.truncate(place(at, bytes)),
            Self::Remove(at, length) => {
                let at = place(at, bytes);
                bytes.drain(at..bytes.len().min(at + length));
            }
            Self::Double(at, length) => {
                let at = place(at, bytes);
                let piece = bytes[at..bytes.len().min(at + length)].to_vec();
                bytes.splice(at..at, piece);
            }
            Self::Move(from, to, length) => {
                let (from, to) = (place(from, bytes), place(to, bytes));
                let piece = bytes[from..bytes.len().min(from + length)].to_vec();
                let end = bytes.len().min(to + piece.len());
                bytes.splice(to..end, piece);
            }
        }
    }
}
