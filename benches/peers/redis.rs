//! Measures due events on one Redis over loopback, compared with a raw client.

use std::cell::RefCell;

use soloist::RedisMutex;

use crate::alternate::{BOTH, NOTHING, Unit, Work};
use crate::machine::apart;
use crate::race::Race;
use crate::raw_redis::{Clients, RawRedis};
use crate::servers::redis::Redis;
use crate::ticks::{Ticks, each, lease_and_claim, timed};

pub(crate) fn race(race: &mut Race) {
    let server = apart(Redis::start);
    let info = server.ask(&["INFO", "server"]);
    let version = info.text().lines().find_map(|line| line.strip_prefix("redis_version:")).expect("it has one");
    race.version("Redis", version);
    // All floors share one connection. Each turn uses another minute, so that its claims are free.
    let raw = RefCell::new((RawRedis::connect(&server.url()), 0));
    let floor = |events: usize, work: fn(&mut RawRedis, usize, i64)| {
        let raw = &raw;
        move || {
            let (raw, minute) = &mut *raw.borrow_mut();
            *minute += 1;
            each(timed(events, || work(raw, events, *minute)), events)
        }
    };
    let store = |prefix| RedisMutex::builder(&server.url()).prefix(prefix).build().expect("the url is in order");

    let events = race.size(200, 10);
    let mut ticks = Ticks::new(store("order:"), events, lease_and_claim);
    let work = Work::new("in order on Redis, each of 200 events", Unit::Seconds)
        .by(
            "a script for each event, by a socket",
            BOTH,
            floor(events, |raw, events, minute| {
                raw.in_order(Clients::socket, events, minute);
            }),
        )
        .by(
            "a script for each event, by the blocking client",
            BOTH,
            floor(events, |raw, events, minute| {
                raw.in_order(Clients::driver, events, minute);
            }),
        )
        .by("soloist", BOTH, || each(ticks.run(), events))
        .by(
            "an empty script for each event, by a socket",
            NOTHING,
            floor(events, |raw, events, minute| {
                raw.trips(Clients::socket, events, minute);
            }),
        );
    race.run(15, work);

    let events = race.size(1_000, 100);
    let mut ticks = Ticks::new(store("background:"), events, |event| lease_and_claim(event).in_background());
    let work = Work::new("in the background on Redis, each of 1,000 events", Unit::Seconds)
        .by(
            "a script for 100 events, by a socket",
            BOTH,
            floor(events, |raw, events, minute| {
                assert_eq!(raw.in_batches(Clients::socket, events, minute), events, "no other client asks");
            }),
        )
        .by(
            "pipelines of `SET` and `DEL`",
            "a lease and a claim, not atomically, for any owner",
            floor(events, RawRedis::pipelined),
        )
        .by("soloist", BOTH, || each(ticks.run(), events));
    race.run(15, work);
}
