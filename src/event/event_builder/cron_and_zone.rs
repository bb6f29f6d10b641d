//! The builder's methods for a crontab, a zone, clock changes and a jitter, and for the occurrences that result.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::Event;
use crate::event::add_error::{AddErrorKind, wrong_zone};
use crate::event::filter::windows_of;
use crate::time::crontab::Crontab;
#[cfg(feature = "cron")]
use crate::time::frequency::Expression;
use crate::time::timetable::clock_change::ClockChange;
use crate::time::zone::{UnknownZone, Zone};

impl Event {
    /// Makes the event due at the times of these five fields, with the meaning that they have in cronie; see
    /// [`Crontab`](crate::time::Crontab). The five fields are a complete timetable: `add` refuses an event that also
    /// has other [methods](https://docs.rs/crate/soloist/latest/source/docs/guide/frequencies.md) for its due times,
    /// except for [`from`](Self::from), [`until`](Self::until) and windows.
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
            Ok(crontab) => self.timed(|due| due.set_expression(crontab, crontab.to_string())),
            Err(error) => self.refused(AddErrorKind::Timetable.because(error)),
        }
    }

    /// Makes the event due at the times of this schedule of the crate [`cron`](https://docs.rs/cron), with seconds and
    /// years. Its fields are `second minute hour day-of-month month day-of-week [year]`, by the rules of that crate:
    /// Sunday is 1, and a day must match both day fields. [`cron`](Self::cron) takes the five fields of a crontab.
    ///
    /// Only the sets of numbers of the schedule are used. This library finds the times, also around clock changes: a
    /// schedule with neither all minutes nor all hours has fixed times of the day in the sense of
    /// [`ClockChange`](crate::time::ClockChange). A time that the clocks skip is made up for in the first minute after
    /// the change, at its seconds. The schedule is a complete timetable, as with [`cron`](Self::cron).
    ///
    /// If the seconds are not only 0, a tick of [`run_due`](crate::Schedule::run_due) runs the latest occurrence in the
    /// minute before that tick. [`run_minute`](crate::Schedule::run_minute) and [`work`](crate::Schedule::work) run all
    /// of them.
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
    pub fn on(self, schedule: impl std::borrow::Borrow<cron::Schedule>) -> Self {
        let schedule = schedule.borrow();
        self.timed(|due| due.set_expression(Expression::try_from(schedule)?, schedule.to_string()))
    }

    /// Sets the zone of the timetable. The default is UTC, or the zone that the schedule sets for its events with
    /// [`with_timezone`](crate::Schedule::with_timezone). A zone is a name such as `"Europe/Berlin"`, `"local"` or
    /// `"+02:00"`, a fixed offset, [`chrono::Local`], or, with the feature `chrono-tz`, a `chrono_tz::Tz`.
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

    /// Sets the rule for the times of the event when the clocks of its zone are set forward or back. The default is the
    /// rule of cronie; see [`ClockChange`]. [`add`](crate::Schedule::add) refuses it beside [`every`](Self::every) and
    /// [`at`](Self::at), which no change moves.
    pub fn on_clock_change(self, rule: ClockChange) -> Self {
        self.say("on_clock_change", rule, |event| &mut event.clock_change)
    }

    /// Delays each start by some seconds, from none to `longest`, so that events of one timetable do not all start at
    /// once. The default is no delay. A delay depends only on the name of the event and on the occurrence. So delays
    /// differ from one occurrence to the next, but all servers agree on them, after each restart and in each version of
    /// this library.
    ///
    /// The occurrence stays as it was: claims are for the occurrence, and [`between`](Self::between) and filters get
    /// the same [tick](crate::time::Tick) as without the delay. [`next`](Self::next) and [`upcoming`](Self::upcoming)
    /// return occurrences; [`start_of`](crate::observe::Definition::start_of) returns when an occurrence starts, and
    /// the commands `list`, `next` and `status` show both. Before its start, an occurrence is neither late nor missed:
    /// the window of [`catch_up`](Self::catch_up) begins with the start.
    ///
    /// [`work`](crate::Schedule::work) and [`run_minute`](crate::Schedule::run_minute) start an occurrence at the exact
    /// second. [`run_due`](crate::Schedule::run_due), which does not wait, starts it in the tick of the first minute
    /// that begins at the start or later. So ticks that come once a minute find each start once, and never early. If an
    /// event is due more often than once a minute, a tick runs the latest occurrence whose start has come.
    ///
    /// `longest` is in whole seconds. It must be shorter than the time between two occurrences, and shorter than the
    /// [claim window](Self::on_one_server), which is an hour at most. [`add`](crate::Schedule::add) refuses other
    /// values.
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
    /// occurrence, or the event has no timetable yet, or [`add`](crate::Schedule::add) would refuse the event as
    /// defined so far.
    ///
    /// The occurrence is within [`between`](Self::between) and [`unless_between`](Self::unless_between). Other filters,
    /// [environments](Self::environments) and stores are not asked, so the event may still be skipped at that time.
    pub fn next(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        self.upcoming(after).next()
    }

    /// Returns the event's occurrences after `after`, one by one; see [`next`](Self::next).
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
        let windows = windows_of(&self.filters);
        self.timetable().into_iter().flat_map(move |timetable| timetable.upcoming(after, windows.clone()))
    }
}
