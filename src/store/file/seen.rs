//! What is remembered of a record.

use super::record::{STATE_LEN, State};

/// The state as it was last read or written, so that one that nobody changed is not read letter by letter.
pub(super) struct Seen {
    block: [u8; STATE_LEN],
    state: Option<State>,
}

impl Seen {
    pub(super) fn nothing() -> Self {
        Self { block: [0; STATE_LEN], state: None }
    }

    /// The state in this block, if it is the one that was seen.
    pub(super) fn state_of(&self, block: &[u8]) -> Option<State> {
        if self.block == block { self.state.clone() } else { None }
    }

    pub(super) fn note(&mut self, block: &[u8], state: &State) {
        if block.len() == STATE_LEN {
            self.block.copy_from_slice(block);
            self.state = Some(state.clone());
        }
    }

    /// The block of a state that is being written.
    pub(super) fn block_of(&mut self, state: &State) -> &[u8] {
        state.write_into(&mut self.block);
        self.state = Some(state.clone());
        &self.block
    }
}
