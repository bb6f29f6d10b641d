//! Asks a store several questions: one after another, up to the first outage, or all together.

use crate::base::{catch_panic::contain, error::MutexError};

/// One answer for each question. After an outage the store is asked nothing more: whoever waits for it waits once. A panic
/// is the answer to one question.
pub(super) fn ask_each<Q, A>(
    questions: &[Q],
    attempted: impl Fn(&Q) -> String,
    ask: impl Fn(&Q) -> Result<A, MutexError>,
) -> Vec<Result<A, MutexError>> {
    let mut outage: Option<MutexError> = None;
    let answer = |question| {
        if let Some(first) = &outage {
            return Err(MutexError::not_asked_again(attempted(question), first));
        }
        let answer = contain(|| ask(question));
        let answer = answer.unwrap_or_else(|message| Err(MutexError::panicked(attempted(question), &message)));
        outage = answer.as_ref().err().filter(|error| error.is_outage()).cloned();
        answer
    };
    questions.iter().map(answer).collect()
}

/// Asks about so many leases at once. `Err`: why the answers are of no use.
pub(crate) fn ask_together<A>(count: usize, ask: impl FnOnce() -> Vec<A>) -> Result<Vec<A>, String> {
    match contain(ask) {
        Ok(answers) if answers.len() == count => Ok(answers),
        Ok(answers) => Err(format!("the store gave {} answers to {count} leases", answers.len())),
        Err(message) => Err(format!("the store panicked: {message}")),
    }
}

/// The first error among the answers that says that the store as a whole is out.
pub(crate) fn outage_in<T>(answers: &[Result<T, MutexError>]) -> Option<&MutexError> {
    answers.iter().filter_map(|answer| answer.as_ref().err()).find(|error| error.is_outage())
}
