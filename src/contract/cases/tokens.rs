//! Cases of fencing tokens: they rise with every grant of a name.

use crate::contract::harness::Harness;
use crate::contract::subject::{CaseResult, Subject, must, occurrence};
use crate::lease::{name::MutexName, request::Lease, token::FencingToken};

pub(super) fn tokens_rise_over_forgetting<H: Harness>(subject: &Subject<H>) {
    let mut tokens = Tokens::of(subject.name("forgotten"));
    for _ in 0..50 {
        let lease = subject.create(&tokens.name);
        tokens.rise_to(lease.token());
        subject.releases(&lease);
    }
}

pub(super) fn tokens_rise_over_expiry<H: Harness>(subject: &Subject<H>) {
    let mut tokens = Tokens::of(subject.name("expired"));
    for _ in 0..3 {
        tokens.rise_to(subject.create_for(&tokens.name, subject.short()).token());
        subject.let_pass(subject.short());
    }
    tokens.rise_to(subject.create(&tokens.name).token());
}

pub(super) fn tokens_rise_over_a_break<H: Harness>(subject: &Subject<H>) -> CaseResult {
    subject.can_break()?;
    let mut tokens = Tokens::of(subject.name("broken"));
    for _ in 0..5 {
        tokens.rise_to(subject.create(&tokens.name).token());
        subject.break_lease(&tokens.name);
    }
    Ok(())
}

pub(super) fn tokens_rise_over_the_lease_and_all_claims_of_a_mutex<H: Harness>(subject: &Subject<H>) {
    let mut tokens = Tokens::of(subject.name("shared"));
    let name = tokens.name.clone();
    for number in 0..10 {
        let lease = subject.create(&name);
        tokens.rise_to(lease.token());
        tokens.rise_to(subject.create(&name.claim("one", occurrence(number))).token());
        subject.releases(&lease);
        tokens.rise_to(subject.create(&name.claim("another", occurrence(number))).token());

        let grant = subject.is_admitted(&subject.both(&name, &name.claim("third", occurrence(number))));
        let granted = [grant.lease(), grant.claim()].map(|lease| lease.map(Lease::token));
        tokens.rise_to(granted.into_iter().flatten().min().unwrap_or(grant.token()));
        // The lease and the claim of one admission may have equal tokens. The next token is greater than both tokens.
        tokens.last = tokens.last.max(granted.into_iter().flatten().max());
        grant.lease().into_iter().for_each(|lease| subject.releases(lease));
    }
}

/// The tokens of one mutex, in the order of their grants.
struct Tokens {
    name: MutexName,
    last: Option<FencingToken>,
}

impl Tokens {
    fn of(name: MutexName) -> Self {
        Self { name, last: None }
    }

    #[track_caller]
    fn rise_to(&mut self, token: FencingToken) {
        let happened = format_args!("{token:?} came after {:?}", self.last);
        must(self.last < Some(token), "tokens rise strictly with every grant", &self.name, happened);
        self.last = Some(token);
    }
}
