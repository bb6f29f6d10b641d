//! Records of which not all was written, or that were changed since.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use soloist::{Admission, Admitted, EventMutex, FencingToken, MutexName};

use super::{Store, admitted, extended, noon, reports, take};
use crate::support::holder;

/// What a record was before anything was torn.
struct Before {
    bytes: Vec<u8>,
    token: FencingToken,
    claim: MutexName,
}

impl Before {
    fn of(store: &Store) -> Self {
        let claim = reports().claim("reports", noon());
        let grant = admitted(&store.mutex, &store.both(&reports(), &claim));
        store.mutex.forget(grant.lease().unwrap()).unwrap();
        Self { bytes: fs::read(store.record()).unwrap(), token: grant.token(), claim }
    }
}

/// As `fs::write`, but without truncating first, after which some filesystems wait for the disk.
pub(super) fn put(record: &Path, bytes: &[u8]) {
    let mut file = File::options().write(true).open(record).unwrap();
    file.write_all(bytes).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
}

#[test]
fn a_record_that_is_cut_anywhere_heals() {
    let store = Store::new();
    let before = Before::of(&store);
    let record = store.record();
    for len in 0..before.bytes.len() {
        // With the record its last token may be lost; then the time is what makes the next one higher.
        store.clock.advance(Duration::from_micros(1));
        put(&record, &before.bytes[..len]);
        assert!(!store.mutex.exists(&reports()).unwrap(), "cut at {len}");
        let lease = take(&store.mutex, &store.request(&reports()));
        assert!(lease.token() > before.token, "cut at {len}");
        store.assert_held(&reports());
        assert!(store.mutex.forget(&lease).unwrap(), "cut at {len}");
        assert!(!store.mutex.exists(&before.claim).unwrap(), "cut at {len}");
        take(&store.mutex, &store.request(&before.claim));
        assert!(store.mutex.break_lease(&before.claim).unwrap().is_freed());
    }
}

#[test]
fn a_record_in_which_any_byte_changed_never_has_two_winners() {
    let store = Store::new();
    let before = Before::of(&store);
    let record = store.record();
    for at in 0..before.bytes.len() {
        for change in [0x01, 0x20, 0x80, before.bytes[at]] {
            let mut bytes = before.bytes.clone();
            bytes[at] ^= change;
            put(&record, &bytes);
            match store.mutex.create(&store.request(&reports())) {
                Err(_) => {
                    assert!(at < "soloist-mutex v1\n".len(), "{at} ^ {change} is an error");
                    assert_eq!(fs::read(&record).unwrap(), bytes, "a file that may be foreign was changed");
                    put(&record, &before.bytes);
                    store.assert_free(&reports());
                }
                Ok(None) => panic!("{at} ^ {change} is held by nobody"),
                Ok(Some(lease)) => {
                    assert!(lease.token() > before.token, "{at} ^ {change}");
                    store.assert_held(&reports());
                    assert!(store.mutex.forget(&lease).unwrap(), "{at} ^ {change}");
                }
            }
        }
    }
}

#[test]
fn a_record_that_is_torn_while_it_is_held_stays_held_as_long_as_the_holder_lives() {
    let store = Store::new();
    let before = Before::of(&store);
    let (other, record) = (store.other(), store.record());
    for torn in [0, 300, 700] {
        let lease = take(&other, &store.request(&reports()));
        put(&record, &before.bytes[..torn]);
        store.assert_held(&reports());
        assert_eq!(holder(&store.mutex, &reports()), None, "it is not known any more who");
        // A claim writes the state anew, and must not make the lease look free.
        take(&store.mutex, &store.request(&before.claim));
        store.assert_held(&reports());
        assert!(matches!(
            Admission::lease_only(store.request(&reports())).ask(&store.mutex),
            Ok(Admitted::LeaseTaken(None))
        ));
        assert!(!extended(&other, &lease), "nobody can say that it is theirs");
        store.assert_free(&reports());
        assert!(!other.forget(&lease).unwrap());

        let lease = take(&other, &store.request(&reports()));
        put(&record, &before.bytes[..torn]);
        assert!(store.mutex.break_lease(&reports()).unwrap().is_freed(), "an operator has the last word");
        store.assert_free(&reports());
        assert!(!other.forget(&lease).unwrap());
    }
}

#[test]
fn a_claim_that_was_written_but_not_granted_does_not_become_granted_later() {
    let store = Store::new();
    let (first, second) = (reports().claim("first", noon()), reports().claim("second", noon()));
    // The room of an expired claim stands before it, and must not be used first.
    take(&store.mutex, &store.request(&reports().claim("expired", noon())));
    let lasting = take(&store.mutex, &store.request(&reports().claim("lasting", noon())));
    let state = fs::read(store.record()).unwrap()[..768].to_vec();
    store.clock.advance(Duration::from_secs(59));
    assert!(extended(&store.mutex, &lasting));
    let lost = admitted(&store.mutex, &store.both(&reports(), &first));
    store.mutex.forget(lost.lease().unwrap()).unwrap();
    store.clock.advance(Duration::from_secs(1));
    // As if the process had died, or the disk had been full, between the claim and the state.
    let mut record = fs::read(store.record()).unwrap();
    record[..state.len()].copy_from_slice(&state);
    put(&store.record(), &record);
    assert!(!store.mutex.exists(&first).unwrap());
    assert!(!store.mutex.forget(lost.claim().unwrap()).unwrap());
    store.assert_free(&reports());
    assert!(!store.mutex.exists(&first).unwrap(), "a lease granted the claim");
    let next = take(&store.mutex, &store.request(&second));
    assert!(next.token() > lost.token());
    assert!(store.mutex.exists(&second).unwrap());
    assert!(!store.mutex.exists(&first).unwrap(), "another claim granted the claim");
    take(&store.mutex, &store.request(&first));
}

#[test]
fn claims_outlive_a_torn_state() {
    let store = Store::new();
    let before = Before::of(&store);
    let mut bytes = before.bytes.clone();
    bytes[300] ^= 1;
    put(&store.record(), &bytes);
    assert!(store.mutex.exists(&before.claim).unwrap());
    let refused = store.both(&reports(), &before.claim).ask(&store.mutex).unwrap();
    assert!(matches!(refused, Admitted::ClaimTaken(Some(_))));
    store.assert_free(&reports());
    assert!(store.mutex.exists(&before.claim).unwrap());
}
