//! States that were written in part, as after a power loss, or changed since.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use soloist::EventMutex;
use soloist::store::MutexErrorKind::Unusable;
use soloist::store::Names;

use super::{Store, admitted, assert_names, noon, reports, take};

/// Writes a file as `fs::write`, but without truncating first, after which some filesystems wait for the disk.
pub(super) fn put(state: &Path, bytes: &[u8]) {
    let mut file = File::options().write(true).open(state).unwrap();
    file.write_all(bytes).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
}

#[test]
fn a_state_that_is_cut_anywhere_heals_when_nobody_holds_the_lease() {
    let store = Store::new();
    let claim = reports().claim("reports", noon());
    let grant = admitted(&store.mutex, &store.both(&reports(), &claim));
    store.mutex.forget(grant.lease().unwrap()).unwrap();
    let (state, whole) = (store.state(), store.text().into_bytes());
    for len in 0..whole.len() {
        // The last token is lost with the state; then the time makes the next one higher.
        store.clock.advance(Duration::from_micros(1));
        put(&state, &whole[..len]);
        assert!(!store.mutex.exists(&reports()).unwrap(), "cut at {len}");
        let lease = take(&store.mutex, &store.request(&reports()));
        assert!(lease.token() > grant.token(), "cut at {len}");
        store.assert_held(&reports());
        assert!(store.mutex.forget(&lease).unwrap(), "cut at {len}");
        assert!(!store.mutex.exists(&claim).unwrap(), "cut at {len}");
    }
    for zeros in [1, 300, 5000] {
        put(&state, &vec![0; zeros]);
        store.assert_free(&reports());
    }
}

#[test]
fn a_state_that_is_cut_anywhere_or_missing_makes_no_second_winner_while_the_holder_lives() {
    let store = Store::new();
    let other = store.other();
    take(&other, &store.request(&reports()));
    let (state, whole) = (store.state(), store.text().into_bytes());
    let is_an_error = || {
        assert_names(Unusable, store.mutex.create(&store.request(&reports())).unwrap_err(), &state);
        assert_names(Unusable, store.mutex.exists(&reports()).unwrap_err(), &state);
        assert!(store.mutex.held(Names::LeasesWithPrefix("")).unwrap().is_empty());
    };
    for len in 0..whole.len() {
        put(&state, &whole[..len]);
        is_an_error();
    }
    fs::remove_file(&state).unwrap();
    is_an_error();
    drop(other);
    store.assert_free(&reports());
}

#[test]
fn a_damaged_line_counts_as_free_when_no_holder_lives() {
    let store = Store::new();
    let other = store.other();
    take(&other, &store.request(&reports()));
    let text = store.text().replace("\ttoken ", "\tticket ");
    put(&store.state(), text.as_bytes());
    let error = assert_names(Unusable, store.mutex.exists(&reports()).unwrap_err(), &store.state());
    assert!(error.to_string().contains("still lives"), "{error}");
    assert!(!store.mutex.exists(&reports().claim("reports", noon())).unwrap(), "another line can be read");
    drop(other);
    take(&store.mutex, &store.request(&reports()));
}
