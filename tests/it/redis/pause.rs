//! A pause on a server that a fleet shares.

use std::sync::Arc;

use soloist::EventMutex;

use crate::pause::{
    calls_at_once_replace_one_another_on, everybody_minds_a_pause_on, everybody_minds_the_pause_of_an_event_on,
};
use crate::servers::redis::Redis;

fn open() -> Arc<dyn EventMutex> {
    Arc::new(super::patient(&Redis::shared().url()))
}

#[test]
fn a_pause_is_the_fleets() {
    everybody_minds_a_pause_on(&open, "pause: fleet");
    everybody_minds_the_pause_of_an_event_on(&open, "pause: fleet");
    assert_eq!(
        Redis::shared().ask(&["EXISTS", "{soloist}:mark/pause:%20fleet/pause:%20fleet/paused"]).number(),
        0,
        "it has ended"
    );
}

#[test]
fn calls_at_once_replace_one_another() {
    calls_at_once_replace_one_another_on(&open, "pause: at once");
    let rest = Redis::shared().ask(&["PTTL", "{soloist}:mark/pause:%20at%20once/pause:%20at%20once/paused"]).number();
    assert!(rest > 0, "it is called as the documentation says: {rest}");
}
