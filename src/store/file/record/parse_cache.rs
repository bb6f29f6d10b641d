//! What is remembered of a record.

use super::state::{RecordState, STATE_LEN};

/// The state as it was last read or written, so that one that nobody changed is not read letter by letter.
pub(in crate::store::file) struct ParseCache {
    block: [u8; STATE_LEN],
    state: Option<RecordState>,
}

impl ParseCache {
    pub(in crate::store::file) fn nothing() -> Self {
        Self { block: [0; STATE_LEN], state: None }
    }

    /// The state in this block, if it is the one that was seen.
    pub(in crate::store::file) fn state_of(&self, block: &[u8]) -> Option<RecordState> {
        if self.block == block { self.state.clone() } else { None }
    }

    pub(in crate::store::file) fn note(&mut self, block: &[u8], state: &RecordState) {
        if block.len() == STATE_LEN {
            self.block.copy_from_slice(block);
            self.state = Some(state.clone());
        }
    }

    /// The block of a state that is being written.
    pub(in crate::store::file) fn block_of(&mut self, state: &RecordState) -> &[u8] {
        state.write_into(&mut self.block);
        self.state = Some(state.clone());
        &self.block
    }
}
