//! A pause in a table that a fleet shares.

use std::sync::Arc;

use soloist::EventMutex;

use super::{SqlServer, on_both};
use crate::pause::{
    calls_at_once_replace_one_another_on, everybody_minds_a_pause_on, everybody_minds_the_pause_of_an_event_on,
};

on_both!(a_pause_is_the_fleets, calls_at_once_replace_one_another);

fn a_pause_is_the_fleets<S: SqlServer>() {
    let open = || -> Arc<dyn EventMutex> { Arc::new(S::shared().mutex()) };
    everybody_minds_a_pause_on(&open, "pause: fleet");
    everybody_minds_the_pause_of_an_event_on(&open, "pause: fleet");
}

fn calls_at_once_replace_one_another<S: SqlServer>() {
    let open = || -> Arc<dyn EventMutex> { Arc::new(S::shared().mutex()) };
    calls_at_once_replace_one_another_on(&open, "pause:at-once");
    let rows = "SELECT COUNT(*) FROM soloist_mutexes WHERE name = 'mark/pause:at-once/pause:at-once/paused'";
    assert_eq!(S::shared().count(rows), 1, "it is called as the documentation says");
}
