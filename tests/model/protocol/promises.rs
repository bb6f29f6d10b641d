//! The promises as properties of a state, and the events that must happen in some state. Without these a promise
//! may hold because nothing happens.

use stateright::Property;

use crate::fleet::{Fleet, Message, Missed, SERVERS};
use crate::server::{Attempt, Phase, Server};
use crate::store::{Asks, Owner, Request, TERM};
use crate::variant::{Admit, Variant};

pub const ONE_AT_A_TIME: &str = "no two runs both believe that they hold the lease, unless it was broken";
pub const UNDER_A_LEASE: &str = "a run and each of its attempts begin under a lease that is its own";
pub const STARTS_ONCE: &str = "an occurrence starts at most once";
pub const SOMEBODY_RUNS: &str =
    "an occurrence that nobody started was met by a live lease, or its claimer crashed or was cut off";
pub const KNOWN_AGAIN: &str = "nobody is refused because of what it holds itself";
pub const ONLY_THE_OWNER: &str = "nothing that is asked by one owner changes what is another's";
pub const CANCELLED_FOR_A_REASON: &str = "a run is stopped only when its deadline has passed or its lease is gone";
pub const TOKENS_RISE: &str = "a token rises with every grant";
pub const FENCED: &str =
    "a resource that looks at tokens refuses a run whose lease is over once its successor is at work";

pub(crate) fn all(variant: &Variant) -> Vec<Property<Variant>> {
    let mut all = vec![
        Property::always(ONE_AT_A_TIME, |_, fleet: &Fleet| one_at_a_time(fleet)),
        Property::always(UNDER_A_LEASE, |_, fleet: &Fleet| !fleet.wrongs.started_without_lease),
        Property::always(STARTS_ONCE, |_, fleet: &Fleet| fleet.starts.iter().all(|starts| *starts <= 1)),
        Property::always(SOMEBODY_RUNS, |_, fleet: &Fleet| !fleet.is_over() || somebody_runs(fleet)),
        Property::always(KNOWN_AGAIN, |_, fleet: &Fleet| !fleet.wrongs.refused_its_own),
        Property::always(ONLY_THE_OWNER, only_the_owner),
        Property::always(CANCELLED_FOR_A_REASON, |_, fleet: &Fleet| !fleet.wrongs.stopped_needlessly),
        Property::always(TOKENS_RISE, |_, fleet: &Fleet| !fleet.store.token_did_not_rise),
        Property::always(FENCED, |_, fleet: &Fleet| is_fenced(fleet)),
        Property::sometimes("both occurrences run", |_, fleet: &Fleet| fleet.starts == [1, 1]),
        Property::sometimes("a lost race", |_, fleet: &Fleet| {
            is_asked(fleet, |request| claimed_by_another(fleet, request))
        }),
        Property::sometimes("an occurrence that nobody runs, because it overlaps", |_, fleet: &Fleet| {
            fleet.is_over() && fleet.starts == [1, 0] && fleet.missed[1] == Missed::default()
        }),
        Property::sometimes(
            "a process that was stopped has not noticed that another has taken over",
            |_, fleet: &Fleet| {
                runs(fleet).any(|old| !old.believes(fleet.now) && runs(fleet).any(|new| new.believes(fleet.now)))
            },
        ),
        Property::sometimes("a lease is renewed, and outlasts its first term", |_, fleet: &Fleet| {
            fleet.now > TERM && fleet.starts == [1, 0] && runs(fleet).any(|server| server.believes(fleet.now))
        }),
        Property::sometimes("a grant arrives when its deadline has passed", |_, fleet: &Fleet| {
            is_answered(fleet, |request| {
                fleet.servers[usize::from(request.owner.server)].is_past_its_deadline(fleet.now)
            })
        }),
    ];
    if variant.faults > 0 {
        all.extend([
            Property::sometimes("a run is told that its lease is gone", |_, fleet: &Fleet| {
                is_asked(fleet, |request| {
                    request.asks == Asks::Extend
                        && fleet.servers[usize::from(request.owner.server)].waits_for(request)
                        && !fleet.store.holds(request.owner, fleet.now)
                })
            }),
            Property::sometimes("a lease is broken while its run believes in it", |_, fleet: &Fleet| {
                runs(fleet).any(|server| server.broken && server.believes(fleet.now))
            }),
            Property::sometimes("somebody runs while a server that crashed had started before", |_, fleet: &Fleet| {
                let crashed = fleet.servers.iter().any(|server| server.phase == Phase::Crashed);
                crashed && fleet.starts == [1, 1] && runs(fleet).any(|server| server.occurrence == 1)
            }),
        ]);
    }
    if variant.retries {
        all.extend([
            Property::sometimes(
                "a second attempt is running, and its lease outlasted its first term",
                |_, fleet: &Fleet| {
                    fleet.now > TERM && attempts(fleet, Attempt::Second).any(|server| server.believes(fleet.now))
                },
            ),
            Property::sometimes("another has taken over from a run that waits for a retry", |_, fleet: &Fleet| {
                let has_lost = attempts(fleet, Attempt::Waits).any(|server| !server.believes(fleet.now));
                has_lost && runs(fleet).any(|server| server.believes(fleet.now))
            }),
        ]);
    }
    match variant.admit {
        Admit::AtOnce if variant.faults > 0 => {
            all.push(Property::sometimes("who asks again is known again", |_, fleet: &Fleet| {
                is_asked(fleet, |request| request.again && fleet.store.holds(request.owner, fleet.now))
            }));
        }
        Admit::AtOnce => {}
        Admit::InSteps => {
            all.push(Property::sometimes("a lease is there although its claim is another's", |_, fleet: &Fleet| {
                is_asked(fleet, |request| request.asks == Asks::TakeClaim && claimed_by_another(fleet, request))
            }))
        }
    }
    all
}

fn claimed_by_another(fleet: &Fleet, request: &Request) -> bool {
    let claimer = fleet.store.claims[usize::from(request.owner.occurrence)];
    claimer.is_some_and(|claimer| claimer != request.owner)
}

fn is_asked(fleet: &Fleet, is_it: impl Fn(&Request) -> bool) -> bool {
    fleet.mail.iter().any(|message| matches!(message, Message::Asked(request) if is_it(request)))
}

fn is_answered(fleet: &Fleet, is_it: impl Fn(&Request) -> bool) -> bool {
    fleet.mail.iter().any(|message| matches!(message, Message::Answered(request, _) if is_it(request)))
}

fn runs(fleet: &Fleet) -> impl Iterator<Item = &Server> {
    fleet.servers.iter().filter(|server| matches!(server.phase, Phase::Running { .. }))
}

/// Returns the runs in this attempt.
fn attempts(fleet: &Fleet, is: Attempt) -> impl Iterator<Item = &Server> {
    runs(fleet).filter(move |server| matches!(server.phase, Phase::Running { attempt, .. } if attempt == is))
}

fn one_at_a_time(fleet: &Fleet) -> bool {
    let believers = fleet.servers.iter().filter(|server| server.believes(fleet.now));
    let (mut whole, mut all) = (0, 0);
    for server in believers {
        all += 1;
        whole += usize::from(!server.broken);
    }
    // Two may run at once only if the lease of the first was broken.
    whole <= 1 || all <= 1
}

/// Returns whether the token of each run, over or not, is below those of its running successors.
fn is_fenced(fleet: &Fleet) -> bool {
    let fences = |old: &Server, new: &Server| match (old.phase, new.phase) {
        (Phase::Running { grant: old, .. }, Phase::Running { grant: new, .. }) => {
            old.order >= new.order || old.token < new.token
        }
        _ => true,
    };
    runs(fleet).all(|old| runs(fleet).all(|new| fences(old, new)))
}

fn somebody_runs(fleet: &Fleet) -> bool {
    // Of an occurrence that was started, nothing is missed.
    fleet.missed.iter().all(|missed| missed.left_to & !missed.cut_off == 0)
}

/// Returns whether the lease survives every request that another owner can make now.
fn only_the_owner(variant: &Variant, fleet: &Fleet) -> bool {
    let Some(held) = fleet.store.live(fleet.now) else { return true };
    let owners = (0..SERVERS).flat_map(|server| [0, 1].map(|occurrence| Owner { server, occurrence }));
    owners.filter(|owner| *owner != held.owner).all(|owner| {
        [Asks::Extend, Asks::ForgetLease, Asks::Break].iter().all(|asks| {
            let mut store = fleet.store;
            store.act(Request { owner, asks: *asks, sent: fleet.now, again: false }, fleet.now, variant);
            store.lease == fleet.store.lease
        })
    })
}
