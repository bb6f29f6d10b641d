//! The answers to one batch, in its order.

use soloist::store::{Admission, Admitted, Batch, Lease, Slot};
use soloist::{EventMutex, MutexError, Term};

type Answers<A> = Vec<Result<A, MutexError>>;

fn answers<Q, A: Clone>(slots: &[Slot<Q, A>]) -> Answers<A> {
    slots.iter().map(|slot| slot.answer().cloned().expect("it is answered")).collect()
}

pub(super) fn admit(mutex: &(impl EventMutex + ?Sized), admissions: &[Admission]) -> Answers<Admitted> {
    let mut batch = Batch::new();
    for admission in admissions {
        batch.admit(admission.clone());
    }
    mutex.carry_out(&mut batch);
    answers(batch.admissions())
}

pub(super) fn release(mutex: &(impl EventMutex + ?Sized), leases: &[Lease]) -> Answers<bool> {
    let mut batch = Batch::new();
    for lease in leases {
        batch.release(lease.clone());
    }
    mutex.carry_out(&mut batch);
    answers(batch.releases())
}

pub(super) fn extend(mutex: &(impl EventMutex + ?Sized), leases: &[Lease], term: Term) -> Answers<bool> {
    let mut slots: Vec<_> = leases.iter().cloned().map(Slot::new).collect();
    mutex.extend(&mut slots, term);
    answers(&slots)
}
