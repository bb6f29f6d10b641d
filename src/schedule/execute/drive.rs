//! The loop of the executor: asks a store for releases and admissions, starts what was admitted, waits for what ends.

use super::hands::Hands;
use super::one_run::{ActiveRun, Pass, Planned};
use super::store_request::StoreRequest;
use crate::schedule::gate::{self, BATCH_SIZE};
use crate::schedule::report::Entry;

/// Runs these by `hands`, and enters a result for each under its place.
///
/// One after another, what has ended is released before any code of the next event runs. So it is released in the request
/// that admits the next event only if that one asks the same store first.
pub(super) fn drive<'a, H: Hands<'a>>(
    planned: impl ExactSizeIterator<Item = Planned<'a>>,
    hands: &mut H,
    enter: &mut impl FnMut(usize, Entry),
) {
    let mut planned = planned.peekable();
    let mut request = StoreRequest::default();
    let (mut ended, mut ready, mut refused) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(room) = hands.wait(planned.len().min(BATCH_SIZE), &mut ended) {
        request.release(&mut ended, enter);
        while request.admissions() + ready.len() < room
            && let Some((index, run)) = planned.next_if(|(_, run)| request.may_include(run, H::IN_ORDER))
        {
            let pass = Pass::new(index, run);
            let may_ask =
                if run.asks_store_first() { Ok(()) } else { pass.span.in_scope(|| gate::check_before_store(run)) };
            match may_ask {
                Err(reason) => refused.push((pass, reason)),
                Ok(()) if run.asks_store() => request.admit(pass),
                Ok(()) => ready.push(ActiveRun::new(pass, gate::begin_run(run, None))),
            }
        }
        request.ask(enter, &mut ready, &mut refused);
        if !H::IN_ORDER {
            hands.start(&mut ready, &mut ended); // Before anybody is told of the others.
        }
        for (pass, reason) in refused.drain(..) {
            pass.skip(reason, enter);
        }
        hands.start(&mut ready, &mut ended);
    }
}
