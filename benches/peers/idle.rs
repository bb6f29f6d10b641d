//! Measures the parsing of expressions, and ticks without a due event. The ticks are compared with a loop that only
//! tests bit masks.

use std::hint::black_box;
use std::str::FromStr;
use std::time::Instant;

use chrono::{TimeZone, Utc};
use clokwerk::{Job, Scheduler, TimeUnits};
use soloist::time::Crontab;
use soloist::{Event, Schedule};

use crate::alternate::{LEASE, NOTHING, Unit, Work};
use crate::race::Race;
use crate::ticks::{callback, each, ran, timed};

pub(crate) fn race(race: &mut Race) {
    for power in 2..=race.size(6, 3) {
        idle(race, 10_usize.pow(u32::try_from(power).expect("it is small")));
    }
    expressions(race);
}

/// Measures a tick without a due event. The events are random daily, hourly and five-minute events that are not due at
/// the weekend. On a Saturday, the minute and the hour match as often as on a weekday, but no event is due.
fn idle(race: &mut Race, count: usize) {
    let mut random = fastrand::Rng::with_seed(1);
    let schedule = Schedule::in_process();
    let mut masks = Vec::new();
    for number in 0..count {
        let (minute, hour) = (random.u8(0..60), random.u8(0..24));
        let (times, mask) = match random.u8(0..3) {
            0 => (format!("{minute} {hour}"), Masks::weekdays(1 << minute, 1 << hour)),
            1 => (format!("{minute} *"), Masks::weekdays(1 << minute, !0)),
            _ => {
                let first = minute % 5;
                let minutes = (first..60).step_by(5).fold(0, |mask, minute| mask | 1 << minute);
                (format!("{first}-59/5 *"), Masks::weekdays(minutes, !0))
            }
        };
        let event = Event::call(format!("event:{number}"), |_| callback()).cron(&format!("{times} * * 1-5"));
        schedule.add(event.without_overlapping()).expect("the event is in order");
        masks.push(mask);
    }
    let mut clokwerk = Scheduler::with_tz(Utc);
    for _ in 0..count {
        clokwerk.every(1.day()).at("03:00").run(callback);
    }
    let saturday = Utc.with_ymd_and_hms(2026, 3, 7, 13, 37, 0).single().expect("UTC has every minute");
    let now = Masks { minute: 1 << 37, hour: 1 << 13, day: 1 << 7, month: 1 << 3, weekday: 1 << 6 };
    // The fewer events there are, the more ticks a turn has, so that all turns take about equally long.
    let ticks = race.size(1_000_000, 1_000).div_ceil(count);
    let in_turn = |tick: &dyn Fn()| each(timed(0, || (0..ticks).for_each(|_| tick())), ticks * count);
    let work = Work::new(format!("not due, each of 10^{} events", count.ilog10()), Unit::Seconds)
        .by("a loop over bit masks", NOTHING, || {
            in_turn(&|| assert!(!black_box(&masks).iter().any(|mask| mask.matches(black_box(&now)))))
        })
        .by("soloist", LEASE, || in_turn(&|| assert!(schedule.run_due(black_box(saturday)).entries().is_empty())))
        .by("clokwerk", NOTHING, || {
            let (before, began) = (ran(), Instant::now());
            (0..ticks).for_each(|_| clokwerk.run_pending());
            let took = began.elapsed();
            // The jobs of clokwerk are due at 03:00 by the real clock, which can be during the measurement.
            assert!(ran() - before <= count, "a job is not due twice");
            each(took, ticks * count)
        });
    race.run(4, work);
}

/// The five fields of an expression as bit masks, in 24 bytes.
struct Masks {
    minute: u64,
    hour: u32,
    day: u32,
    month: u16,
    weekday: u8,
}

impl Masks {
    fn weekdays(minute: u64, hour: u32) -> Self {
        Self { minute, hour, day: !0, month: !0, weekday: 0b11_1110 }
    }

    fn matches(&self, now: &Self) -> bool {
        self.minute & now.minute != 0
            && self.hour & now.hour != 0
            && self.day & now.day != 0
            && self.month & now.month != 0
            && self.weekday & now.weekday != 0
    }
}

fn expressions(race: &mut Race) {
    const EXPRESSIONS: [&str; 8] = [
        "* * * * *",
        "*/5 * * * *",
        "30 2 * * *",
        "0 9-17 * * MON-FRI",
        "15,45 */2 1,15 * *",
        "0 0 1 1,4,7,10 *",
        "5-55/10 8,12,16,20 * JAN-MAR,OCT *",
        "59 23 28-31 * *",
    ];
    fn read<T: FromStr>(times: usize, texts: &[String]) -> f64 {
        let read = |text: &String| assert!(T::from_str(black_box(text)).is_ok(), "{text} is in order");
        each(timed(0, || (0..times).for_each(|_| texts.iter().for_each(read))), times * texts.len())
    }
    let times = race.size(2_000, 1);
    let five_fields = EXPRESSIONS.map(str::to_owned);
    // The crate `cron` needs a field for the seconds in front.
    let six_fields = EXPRESSIONS.map(|text| format!("0 {text}"));
    let work = Work::new("parsing an expression", Unit::Seconds)
        .by("the cron crate", "–", || read::<cron::Schedule>(times, &six_fields))
        .by("soloist", "–", || read::<Crontab>(times, &five_fields));
    race.run(3, work);
}
