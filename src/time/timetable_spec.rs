//! The settings that say when an event is due. Methods of the event make these settings. A setting is a field of a
//! crontab, an interval, or a whole expression. All settings of an event together give its timetable. It is an error to
//! set one field to two different values, so the order of the methods makes no difference.

use std::time::Duration;

use chrono::{DateTime, Datelike, NaiveDate, Timelike, Utc};

use crate::time::clock::instant_of;
use crate::time::clock::shown::{ExactDuration, Rfc3339};
use crate::time::crontab::civil_times::{CivilTimes, Cycle};
use crate::time::crontab::field_set::{Field, FieldSet, InField};
#[cfg(feature = "cron")]
use crate::time::timetable::occurrences::Seconds;
use crate::time::timetable::windows::time_of_day;
use crate::time::timetable::{clock_change::ClockChange, interval::INTERVALS, interval::Interval, span::Span};
use crate::time::{crontab::Crontab, timetable::Timetable, zone::Zone};

pub(crate) mod one_or_more;

/// The settings that say when an event is due: an expression, or fields that were set one by one.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimetableSpec {
    /// A complete timetable, such as the crontab of `cron(..)`, and its text for messages.
    expression: Option<(Timetable, String)>,
    /// The fields of a crontab that methods have set. All other fields are `*`.
    fields: [Option<SetField>; Field::ALL.len()],
    /// The defaults for fields that no method sets, such as midnight.
    defaults: [Option<SetField>; Field::ALL.len()],
    cycle: Option<Cycle>,
    /// The method of [`HOW_OFTEN`] that was called. A call of another method of `HOW_OFTEN` is an error.
    how_often: Option<&'static str>,
    /// The interval. An interval of a minute or longer decides the minutes. An interval of an hour or longer decides
    /// the hours, too. An interval of a day or longer decides all fields. No other method can set a field that the
    /// interval decides.
    pub(crate) every: Option<Duration>,
    pub(crate) anchor: Option<DateTime<Utc>>,
    /// The instant of `at(..)`: the only occurrence of the event. An event with `at(..)` can have no other setting of a
    /// time.
    pub(crate) at: Option<DateTime<Utc>>,
    pub(crate) from: Option<DateTime<Utc>>,
    pub(crate) until: Option<DateTime<Utc>>,
}

/// The value of a field, and the method that has set it. Messages quote the method, for example `daily_at(..)`.
#[derive(Clone, Copy, Debug)]
struct SetField {
    set: FieldSet,
    method: &'static str,
}

/// Converts the sets of numbers, not the text, so that the spelling makes no difference. In the crate `cron`, a day
/// must match both day fields, so this rule is kept.
#[cfg(feature = "cron")]
impl TryFrom<&cron::Schedule> for Timetable {
    type Error = String;

    fn try_from(schedule: &cron::Schedule) -> Result<Self, String> {
        use cron::TimeUnitSpec;

        fn numbers(unit: &impl TimeUnitSpec) -> Vec<u32> {
            unit.iter().collect()
        }
        let from_sunday = numbers(schedule.days_of_week()).into_iter().map(|day| day - 1).collect();
        let sets = [
            numbers(schedule.minutes()),
            numbers(schedule.hours()),
            numbers(schedule.days_of_month()),
            numbers(schedule.months()),
            from_sunday,
        ];
        let mut crontab = Crontab::EVERY_MINUTE;
        for (field, numbers) in Field::ALL.into_iter().zip(sets) {
            let bits = numbers.into_iter().fold(0, |bits, number| bits | 1 << number);
            let is_day = matches!(field, Field::DayOfMonth | Field::DayOfWeek);
            crontab.set(field, FieldSet { bits, star: is_day || bits == FieldSet::every(field).bits });
        }
        let never =
            || format!("`on({schedule})` is never due: none of its days of the month comes in any of its months");
        let seconds = Seconds::new(numbers(schedule.seconds())).filter(|_| crontab.comes()).ok_or_else(never)?;
        let years = numbers(schedule.years()).into_iter().collect();
        Ok(Self { times: CivilTimes { years, ..CivilTimes::of(crontab) }, seconds, ..Self::of(crontab) })
    }
}

/// The methods that say how often the event is due in the calendar. An event can have only one of them, because two would
/// not mean what their names say: `monthly().weekly()` would be the first of each month and all Sundays.
const HOW_OFTEN: [&str; 6] = ["daily()", "weekly()", "monthly()", "quarterly()", "yearly()", "every_weeks(..)"];

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl TimetableSpec {
    /// Sets a complete timetable. Messages quote `text`. A second expression is an error, unless its numbers are equal
    /// to those of the first.
    pub(crate) fn set_expression(&mut self, expression: Timetable, text: String) -> Result<(), String> {
        match &self.expression {
            Some((before, text_before)) if *before != expression => {
                Err(format!("two crontabs say when it is due, `{text_before}` and `{text}`: leave one of them out"))
            }
            _ => {
                self.expression = Some((expression, text));
                Ok(())
            }
        }
    }

    /// Returns the timetable in this zone. A timetable without an occurrence is an error. `None`: no timetable was set.
    pub(crate) fn timetable(&self, zone: &Zone, clock_change: ClockChange) -> Result<Option<Timetable>, String> {
        let expression = match &self.expression {
            Some((expression, text)) => match self.words().next() {
                Some(method) => {
                    return Err(format!(
                        "both the crontab `{text}` and `{method}` say when it is due: leave one of the two out, or use \
                         methods for all of it, such as `weekly_on(Weekday::Mon, \"09:00\")`"
                    ));
                }
                None => expression.clone(),
            },
            None if self.words().next().is_some() => Timetable::of(self.crontab_of_words()?),
            None => return Ok(None),
        };
        let times = CivilTimes { cycle: self.cycle.unwrap_or(Cycle::EVERY_DAY), ..expression.times };
        let span = self.span()?;
        let interval = self.interval()?;
        let zone = zone.clone();
        let timetable = Timetable { times, interval, zone, clock_change, span, ..expression };
        if timetable.next(DateTime::<Utc>::MIN_UTC).is_none() {
            return Err(format!(
                "`{}` is never due between the years 1970 and 2100: change a part of it, or leave a part out",
                timetable.in_words()
            ));
        }
        Ok(Some(timetable))
    }

    fn span(&self) -> Result<Span, String> {
        if let Some(at) = self.at {
            return Ok(Span::second(at.timestamp()));
        }
        match (self.from, self.until) {
            (Some(from), Some(until)) if until <= from => Err(format!(
                "`until({})` is not after `from({})`, so the event would never be due: exchange them, or leave one out",
                Rfc3339(until),
                Rfc3339(from)
            )),
            (from, until) => Ok(Span::new(from, until)),
        }
    }

    fn interval(&self) -> Result<Option<Interval>, String> {
        if let Some(at) = self.at {
            // The interval has an instant each hour, and `at` is one of them. The span has only the second `at`, so the
            // event is due at no other instant.
            return whole("at", at, 60).map(|at| Some(Interval::new(at, HOUR.as_secs().cast_signed())));
        }
        let anchor = self.anchor.unwrap_or(DateTime::UNIX_EPOCH);
        match self.every {
            None if self.anchor.is_some() => Err(format!(
                "`anchored_at({})` needs an interval: add `every(..)`, or leave `anchored_at(..)` out",
                Rfc3339(anchor)
            )),
            None => Ok(None),
            Some(every) if !INTERVALS.contains(&every) || every.subsec_nanos() != 0 => {
                Err(format!("`every({})`: use whole seconds, from 1s to ten years", ExactDuration(every)))
            }
            Some(every) => {
                let seconds = every.as_secs().cast_signed();
                let unit = if seconds % 60 == 0 { 60 } else { 1 };
                Ok(Some(Interval::new(whole("anchored_at", anchor, unit)?, seconds)))
            }
        }
    }

    /// Returns whether the interval or the only occurrence decides this field.
    fn is_of_interval(&self, field: Field) -> bool {
        let shortest = match field {
            Field::Minute => MINUTE,
            Field::Hour => HOUR,
            _ => DAY,
        };
        self.at.is_some() || self.every.is_some_and(|every| every >= shortest)
    }

    /// Returns an error if a method has set a field that the interval or the only occurrence decides. Otherwise one of
    /// the two settings would be lost.
    fn check_interval(&self) -> Result<(), String> {
        let whole = match (self.at, self.every) {
            (Some(at), _) => format!("at({})", Rfc3339(at)),
            (None, Some(every)) => format!("every({})", ExactDuration(every)),
            (None, None) => return Ok(()),
        };
        let field = Field::ALL.into_iter().find_map(|field| {
            let SetField { set, method } = self.fields[field as usize].filter(|_| self.is_of_interval(field))?;
            Some(format!("`{method}`, which sets the {} `{}`", field.name(), InField(field, set)))
        });
        let how_often = self.how_often.filter(|_| self.is_of_interval(Field::DayOfMonth));
        let beside_at = [
            self.from.map(|_| "from(..)"),
            self.until.map(|_| "until(..)"),
            self.every.map(|_| "every(..)"),
            self.anchor.map(|_| "anchored_at(..)"),
        ];
        let methods = [self.cycle.map(method_of), how_often].into_iter();
        let methods = methods.chain(beside_at.map(|method| method.filter(|_| self.at.is_some())));
        match field.or_else(|| methods.flatten().next().map(|method| format!("`{method}`"))) {
            Some(lost) => Err(format!("`{whole}` can't be combined with {lost}: leave one of the two out")),
            None => Ok(()),
        }
    }

    /// Sets the days to each `n`th day from `date`. The time is midnight, unless another method sets the time.
    pub(crate) fn set_days_from(&mut self, n: u16, date: NaiveDate) -> Result<(), String> {
        self.set_cycle("days", n, date, Cycle::of_days(n, date))
    }

    /// Sets the weeks to each `n`th week from the week of `date`. The day is the day of the week of `date`, unless
    /// another method sets the day.
    pub(crate) fn set_weeks_from(&mut self, n: u16, date: NaiveDate) -> Result<(), String> {
        let set = FieldSet::only(date.weekday().num_days_from_sunday());
        self.defaults[Field::DayOfWeek as usize] = Some(SetField { set, method: "every_weeks(..)" });
        self.set_cycle("weeks", n, date, Cycle::of_weeks(n, date))?;
        self.set_how_often("every_weeks(..)")
    }

    /// Refuses a second method of [`HOW_OFTEN`].
    fn set_how_often(&mut self, method: &'static str) -> Result<(), String> {
        match HOW_OFTEN.contains(&method).then(|| self.how_often.replace(method)).flatten() {
            Some(before) if before != method => Err(format!(
                "both `{before}` and `{method}` say how often it is due: leave one of them out; a time of the day is \
                 `daily_at(..)`"
            )),
            _ => Ok(()),
        }
    }

    fn set_cycle(&mut self, unit: &str, n: u16, date: NaiveDate, cycle: Cycle) -> Result<(), String> {
        self.default_to_zero(method_of(cycle), &[Field::Hour, Field::Minute]);
        match self.cycle.replace(cycle) {
            _ if n == 0 => Err(format!("`every_{unit}(0, {date})` would never be due: write 1 or more")),
            Some(before) if before != cycle => Err(format!(
                "its days are set twice, as {before} and as {cycle}: leave out one of the calls of `every_days(..)` or \
                 `every_weeks(..)`"
            )),
            _ => Ok(()),
        }
    }
}

fn method_of(cycle: Cycle) -> &'static str {
    if cycle.is_of_weeks() { "every_weeks(..)" } else { "every_days(..)" }
}

/// Returns the instant `at` in seconds since 1970. `unit` is 1 for seconds, and 60 for minutes. Refuses an instant that
/// is not at the start of a second or minute, because ticks would miss the instant.
fn whole(method: &str, at: DateTime<Utc>, unit: i64) -> Result<i64, String> {
    let second = at.timestamp().div_euclid(unit) * unit;
    let whole = instant_of(second);
    if whole == at {
        return Ok(second);
    }
    let at = Rfc3339(at);
    let whole = Rfc3339(whole);
    let name = if unit == 1 { "second" } else { "minute" };
    Err(format!(
        "`{method}({at})` is not at the start of a {name}, so ticks would miss it: write a time such as `{whole}`"
    ))
}

impl TimetableSpec {
    /// Sets `fields` to their values in `expression`. The fields of `defaults` get their values in `expression` only if
    /// no other method sets them.
    pub(crate) fn set_from(
        &mut self,
        method: &'static str,
        expression: &str,
        fields: &[Field],
        defaults: &[Field],
    ) -> Result<(), String> {
        self.set_how_often(method)?;
        let crontab: Crontab = expression.parse().expect("the expressions in the code are valid");
        for field in defaults {
            self.defaults[*field as usize] = Some(SetField { set: crontab.get(*field), method });
        }
        fields.iter().try_for_each(|field| self.set(method, *field, crontab.get(*field)))
    }

    /// Sets a field. Error messages quote `method`.
    pub(crate) fn set(&mut self, method: &'static str, field: Field, set: FieldSet) -> Result<(), String> {
        let after = SetField { set, method };
        let Some(before) = self.fields[field as usize].replace(after).filter(|before| before.set != set) else {
            return Ok(());
        };
        let [before, after] =
            [before, after].map(|SetField { set, method }| format!("`{}` by `{method}`", InField(field, set)));
        let name = field.name();
        Err(format!(
            "its {name} is set twice, as {before} and as {after}: leave one of them out, say both in one `cron(..)`, or add an \
             event for each"
        ))
    }

    /// Sets a field to the numbers that were passed to `method`.
    pub(crate) fn set_numbers(
        &mut self,
        method: &'static str,
        field: Field,
        numbers: impl IntoIterator<Item = u32>,
    ) -> Result<(), String> {
        let (name, (first, last)) = (field.name(), field.ends());
        let mut set: Option<FieldSet> = None;
        for number in numbers {
            if !(first..=last).contains(&number) {
                let hint = if field == Field::DayOfMonth { ": the last day is `last_day_of_month(..)`" } else { "" };
                return Err(format!("`{method}`: {name} {number} is outside of {first}-{last}{hint}"));
            }
            let one = FieldSet::only(number);
            if set.is_some_and(|set| set.with(one) == set) {
                let named = InField(field, one);
                return Err(format!("`{method}`: {name} {named} is given twice: leave one of the two out"));
            }
            set = Some(set.map_or(one, |set| set.with(one)));
        }
        let set = set.ok_or_else(|| {
            format!("`{method}`: the list is empty, so the event would never be due: write at least one {name}")
        })?;
        self.set(method, field, set)
    }

    /// Sets the hour and the minute from `hh:mm`.
    pub(crate) fn set_time(&mut self, method: &'static str, time: &str) -> Result<(), String> {
        let time = time_of_day(method, time)?;
        self.set(method, Field::Hour, FieldSet::only(time.hour()))?;
        self.set(method, Field::Minute, FieldSet::only(time.minute()))
    }

    /// Sets the hours to every `n`th hour. `n` must divide 24, because otherwise the last interval of a day would be
    /// shorter than the others.
    pub(crate) fn set_hours(&mut self, method: &'static str, n: u32) -> Result<(), String> {
        if n == 0 || 24 % n != 0 {
            return Err(format!(
                "`{method}`: {n} hours do not divide a day: write one of 1, 2, 3, 4, 6, 8, 12, 24; hours of real time are `every(..)`"
            ));
        }
        self.set(method, Field::Hour, FieldSet::every_nth(Field::Hour, n))
    }

    /// Sets these fields to zero, unless another method sets them: midnight, or the start of an hour.
    pub(crate) fn default_to_zero(&mut self, method: &'static str, fields: &[Field]) -> &mut Self {
        for field in fields {
            self.defaults[*field as usize] = Some(SetField { set: FieldSet::only(0), method });
        }
        self
    }

    /// Returns the names of the methods that have set a part of the timetable. `cron(..)` and `on(..)` are
    /// not among them, because they set a complete timetable.
    fn words(&self) -> impl Iterator<Item = &'static str> {
        let instants =
            [self.at.map(|_| "at(..)"), self.every.map(|_| "every(..)"), self.anchor.map(|_| "anchored_at(..)")];
        let fields = Field::ALL.into_iter().filter_map(|field| self.field(field)).map(|field| field.method);
        instants.into_iter().flatten().chain(fields)
    }

    fn get(&self, field: Field) -> Option<FieldSet> {
        self.field(field).map(|field| field.set)
    }

    fn field(&self, field: Field) -> Option<SetField> {
        let by_default = || self.defaults[field as usize].filter(|_| !self.is_of_interval(field));
        self.fields[field as usize].or_else(by_default)
    }

    fn crontab_of_words(&self) -> Result<Crontab, String> {
        self.check_interval()?;
        let crontab = self.fields_of_words();
        if let (Some(cycle), Some(days)) = (self.cycle, self.fields[Field::DayOfMonth as usize])
            && cycle.is_of_weeks()
        {
            let (method, days) = (days.method, InField(Field::DayOfMonth, days.set));
            return Err(format!(
                "`every_weeks(..)` counts weeks, {cycle}, and `{method}` sets the day of month `{days}`: name days of the week, or \
                 leave one of the two out"
            ));
        }
        let has_time = self.get(Field::Hour).is_some() || self.get(Field::Minute).is_some();
        // An anchor without an interval has its own error, which names the missing interval.
        if !has_time && self.at.is_none() && self.every.is_none() && self.anchor.is_none() {
            return Err(format!(
                "it says on which days it is due, but not at what time: add `daily_at(\"02:30\")` or `hourly()`; for every \
                 minute of these days (`{crontab}`), add `every_minute()`"
            ));
        }
        // A method has set the date on purpose, so a date that never comes is an error, even if days of the week are set.
        if !crontab.day_of_month_comes() {
            let method = self.field(Field::DayOfMonth).map_or("days_of_month(..)", |field| field.method);
            return Err(format!(
                "`{method}`: this day never comes in these months: the end of a month is `last_day_of_month(..)`"
            ));
        }
        Ok(crontab)
    }

    fn fields_of_words(&self) -> Crontab {
        let mut crontab = Crontab::EVERY_MINUTE;
        for field in Field::ALL {
            crontab.set(field, self.get(field).unwrap_or(crontab.get(field)));
        }
        crontab
    }
}

#[cfg(test)]
impl TimetableSpec {
    /// Returns the crontab and the interval, even if `timetable` would refuse them.
    pub(crate) fn spelt_out(&self) -> (Crontab, Option<Duration>) {
        let of_expression = self.expression.as_ref().map(|(expression, _)| expression.times.crontab);
        (of_expression.unwrap_or_else(|| self.fields_of_words()), self.every)
    }

    pub(crate) fn cycle_in_words(&self) -> String {
        self.cycle.map(|cycle| cycle.to_string()).unwrap_or_default()
    }

    pub(crate) fn is_once(&self) -> bool {
        self.at.is_some()
    }
}
