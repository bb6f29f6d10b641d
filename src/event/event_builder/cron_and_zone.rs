//! The builder's methods for a crontab, a zone, clock changes and a jitter, and for the occurrences that result.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::Event;
use crate::event::add_error::{AddErrorKind, wrong_zone};
use crate::time::crontab::Crontab;
use crate::time::timetable::{Timetable, clock_change::ClockChange};
use crate::time::zone::{Zone, zone_text::UnknownZone};

impl Event {
    /// Makes the event due at the times of `expression`: the five fields of a crontab, with their meaning in cronie;
    /// see [`Crontab`](crate::time::Crontab). The five fields are a complete timetable. So `add` refuses an event that
    /// also has other [methods](https://docs.rs/crate/soloist/latest/source/docs/guide/frequencies.md) for its due
    /// times, except for [`from`](Self::from), [`until`](Self::until) and windows.
    ///
    /// ```
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schedule = Schedule::in_process();
    /// schedule.add(Event::call("reports", |_| {}).cron("*/10 8-18 * * MON-FRI"))?;
    /// let error = schedule.add(Event::call("backup", |_| {}).cron("61 * * * *")).unwrap_err();
    /// assert!(error.to_string().contains("61"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn cron(self, expression: &str) -> Self {
        match expression.parse::<Crontab>() {
            Ok(crontab) => self.timed(|due| due.set_expression(Timetable::of(crontab), crontab.to_string())),
            Err(error) => self.refused(AddErrorKind::Timetable.because(error)),
        }
    }

    /// Makes the event due at the times of `schedule`, which comes from the crate [`cron`](https://docs.rs/cron) and
    /// can have seconds and years. Its fields are `second minute hour day-of-month month day-of-week [year]`. The rules
    /// of that crate apply: Sunday is 1, and a day must match both day fields. For the five fields of a crontab, use
    /// the method [`cron`](Self::cron).
    ///
    /// This library takes only the numbers of the fields from `schedule`, and computes the times itself. So a clock
    /// change is handled as [`ClockChange`](crate::time::ClockChange) says. If neither the field for minutes nor the
    /// field for hours includes all values, the schedule has fixed times of the day. If the clocks skip such a time,
    /// the event is due in the first minute after the change, at the same second. The schedule is a complete timetable,
    /// as with [`cron`](Self::cron).
    ///
    /// If the field for seconds is not `0`, a minute can have several occurrences.
    /// [`run_due`](crate::Schedule::run_due) runs only the latest occurrence in the minute before its tick. If a tick
    /// comes more than a minute after the tick before it, `run_due` can miss an occurrence between them.
    /// [`run_minute`](crate::Schedule::run_minute) and [`work`](crate::Schedule::work) tick at each occurrence. But if
    /// such a tick is late, and several occurrences of an event are due, the tick also runs only the latest.
    ///
    /// ```
    /// use chrono::{DateTime, Utc};
    /// use soloist::Event;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let event = Event::call("poll", |_| {}).on("15,45 30 9 * * Mon-Fri".parse::<cron::Schedule>()?);
    /// let sunday: DateTime<Utc> = "2026-03-01T12:00:00Z".parse()?;
    /// let times: Vec<String> = event.upcoming(sunday).take(3).map(|time| time.format("%a %T").to_string()).collect();
    /// assert_eq!(times, ["Mon 09:30:15", "Mon 09:30:45", "Tue 09:30:15"]);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "cron")]
    #[expect(clippy::needless_pass_by_value, reason = "a schedule that was just parsed needs no `&`")]
    pub fn on(self, schedule: cron::Schedule) -> Self {
        self.timed(|due| due.set_expression(Timetable::try_from(&schedule)?, schedule.to_string()))
    }

    /// Sets the zone of the timetable. The default is the zone that the schedule sets with
    /// [`with_timezone`](crate::Schedule::with_timezone), or otherwise UTC. A zone is a name such as `"Europe/Berlin"`,
    /// `"local"` or `"+02:00"`, a fixed offset, or [`chrono::Local`]. With the feature `chrono-tz`, a `chrono_tz::Tz`
    /// is a zone, too.
    ///
    /// ```
    /// use chrono::FixedOffset;
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schedule = Schedule::in_process();
    /// schedule.add(Event::call("berlin", |_| {}).daily_at("02:30").timezone("Europe/Berlin"))?;
    /// let offset = FixedOffset::east_opt(5 * 3600 + 45 * 60).unwrap();
    /// schedule.add(Event::call("kathmandu", |_| {}).daily_at("02:30").timezone(offset))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn timezone<Z>(self, zone: Z) -> Self
    where
        Z: TryInto<Zone>,
        Z::Error: Into<UnknownZone>,
    {
        match zone.try_into() {
            Ok(zone) => self.say("timezone", zone, |event| &mut event.zone),
            Err(error) => self.refused(wrong_zone("timezone", &error.into())),
        }
    }

    /// Sets the rule for clock changes: it decides when the event is due if the clocks of its zone skip a time, or show
    /// a time twice. The default is the rule of cronie; see [`ClockChange`]. [`add`](crate::Schedule::add) refuses a
    /// rule for an event with [`every`](Self::every) or [`at`](Self::at), because clock changes do not move these
    /// times.
    pub fn on_clock_change(self, rule: ClockChange) -> Self {
        self.say("on_clock_change", rule, |event| &mut event.clock_change)
    }

    /// Delays each start by up to `longest`, so that events with equal timetables do not all start at the same time.
    /// The default is no delay. The delay is computed from the name of the event and the occurrence, in whole seconds.
    /// So it differs from one occurrence to the next. But for one occurrence, all servers compute the same delay. A
    /// restart or another version of this library does not change the delay.
    ///
    /// The delay moves the start, but not the occurrence. Claims are made for the occurrence.
    /// [`between`](Self::between) and the filters get the same [tick](crate::time::Tick) as without a delay.
    /// [`next`](Self::next) and [`upcoming`](Self::upcoming) return occurrences, and
    /// [`start_of`](crate::observe::Definition::start_of) returns the start of an occurrence. The commands `list`,
    /// `next` and `status` show the occurrence and the start. Before its start, an occurrence is neither late nor
    /// missed: the window of [`catch_up`](Self::catch_up) begins with the start.
    ///
    /// [`work`](crate::Schedule::work) and [`run_minute`](crate::Schedule::run_minute) start an occurrence at the exact
    /// second. [`run_due`](crate::Schedule::run_due) does not wait. It starts an occurrence in the first tick whose
    /// minute begins at or after the start of the occurrence. So with one tick a minute, each occurrence starts once,
    /// and never before its start. If an event is due more often than once a minute, a tick runs the latest occurrence
    /// whose start has come.
    ///
    /// `longest` must be in whole seconds, shorter than the time between two occurrences, and shorter than an hour.
    /// [`add`](crate::Schedule::add) refuses other values.
    ///
    /// ```
    /// use std::time::Duration;
    /// use soloist::{Event, Schedule};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let schedule = Schedule::in_process();
    /// for customer in ["ada", "brunel", "curie"] {
    ///     let import = Event::call(format!("import:{customer}"), |_| {});
    ///     schedule.add(import.daily_at("02:30").jitter(Duration::from_secs(15 * 60)))?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn jitter(self, longest: Duration) -> Self {
        self.say("jitter", longest, |event| &mut event.jitter)
    }

    /// Returns the event's first occurrence after `after`, between the years 1970 and 2100. `None`: there is no such
    /// occurrence, the event has no timetable yet, or [`add`](crate::Schedule::add) would refuse the options that were
    /// set so far.
    ///
    /// An occurrence that [`between`](Self::between) or [`unless_between`](Self::unless_between) refuses is left out.
    /// Other filters, [environments](Self::environments) and the store are not asked. So the event can still be skipped
    /// at the returned time.
    ///
    /// Without [`timezone`](Self::timezone), the times are those of UTC: an event knows the zone of its schedule only
    /// after [`add`](crate::Schedule::add). [`Schedule::upcoming`](crate::Schedule::upcoming) uses this zone.
    pub fn next(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.upcoming(after).next()
    }

    /// Returns the event's occurrences after `after`, the earliest first; see [`next`](Self::next).
    ///
    /// ```
    /// use chrono::{DateTime, Utc};
    /// use soloist::Event;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let noon: DateTime<Utc> = "2026-03-01T12:00:00Z".parse()?;
    /// let event = Event::call("reports", |_| {}).every_thirty_minutes();
    /// let times: Vec<String> = event.upcoming(noon).take(3).map(|time| time.format("%R").to_string()).collect();
    /// assert_eq!(times, ["12:30", "13:00", "13:30"]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn upcoming(&self, after: DateTime<Utc>) -> impl Iterator<Item = DateTime<Utc>> + use<> {
        self.timetable().into_iter().flat_map(move |timetable| timetable.upcoming(after))
    }
}
