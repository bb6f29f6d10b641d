//! What was said about when an event is due, and whether it makes a timetable.

use chrono::Timelike;

use super::time_of_day::time_of_day;
use crate::time::crontab::field_set::{Field, FieldSet, InField};
use crate::time::{crontab::Crontab, timetable::seconds::Seconds};

/// When an event is due, as far as it was said: by an expression, or field by field.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimetableSpec {
    expression: Option<Crontab>,
    /// Fields of a crontab that were set one by one. All others are `*`.
    fields: [Option<FieldSet>; Field::ALL.len()],
    /// What holds unless the field is set, such as midnight.
    defaults: [Option<FieldSet>; Field::ALL.len()],
    seconds: Option<Seconds>,
}

impl TimetableSpec {
    pub(crate) fn set_expression(&mut self, crontab: Crontab) -> Result<(), String> {
        match self.expression.replace(crontab) {
            Some(before) if before != crontab => {
                Err(format!("two crontabs say when it is due, `{before}` and `{crontab}`: leave one of them out"))
            }
            _ => Ok(()),
        }
    }

    /// `None`: nothing was said.
    pub(crate) fn timetable(&self) -> Result<Option<(Crontab, Seconds)>, String> {
        match self.expression {
            Some(crontab) if self.has_words() => Err(format!(
                "both the crontab `{crontab}` and words say when it is due: say all of it in one of the two ways"
            )),
            None if self.has_words() => self.timetable_of_words().map(Some),
            expression => Ok(expression.map(|crontab| (crontab, Seconds::FIRST))),
        }
    }

    /// What was said, complete or not.
    #[cfg(test)]
    pub(crate) fn spelt_out(&self) -> (Crontab, Seconds) {
        (self.expression.unwrap_or_else(|| self.crontab_of_words()), self.seconds.unwrap_or(Seconds::FIRST))
    }
}

/// What an interval is counted in. It has to divide the next larger unit, so that no interval is shorter than the others.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Interval {
    Seconds,
    Minutes,
    Hours,
}

impl Interval {
    /// Refuses an interval of `n` if it does not come out even.
    fn check(self, n: u32) -> Result<(), String> {
        let (units, whole, length, longer) = match self {
            Self::Seconds => ("seconds", "a minute", 60, "minutes"),
            Self::Minutes => ("minutes", "an hour", 60, "hours"),
            Self::Hours => ("hours", "a day", 24, "days"),
        };
        let shorter = "; if its last interval may be shorter, say so in a crontab, as in";
        Err(match self {
            _ if n == 0 => format!("an interval of 0 {units} is outside of 1-{length}"),
            _ if n > length => {
                format!("an interval of {n} {units} is outside of 1-{length}, longer ones are counted in {longer}")
            }
            _ if length % n == 0 => return Ok(()),
            Self::Seconds => {
                format!("{n} {units} do not divide {whole}, write one of 1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30, 60")
            }
            Self::Minutes => format!("{n} {units} do not divide {whole}{shorter} cron(\"*/{n} * * * *\")"),
            Self::Hours => format!("{n} {units} do not divide {whole}{shorter} cron(\"0 */{n} * * *\")"),
        })
    }
}

impl TimetableSpec {
    /// Sets these fields as the expression has them, and these others if nothing else sets them.
    pub(crate) fn set_from(&mut self, expression: &str, fields: &[Field], defaults: &[Field]) -> Result<(), String> {
        let crontab: Crontab = expression.parse().expect("the expressions in the table of words are in order");
        for field in defaults {
            self.defaults[*field as usize] = Some(crontab.get(*field));
        }
        fields.iter().try_for_each(|field| self.set(*field, crontab.get(*field)))
    }

    pub(crate) fn set(&mut self, field: Field, set: FieldSet) -> Result<(), String> {
        let Some(before) = self.fields[field as usize].replace(set).filter(|before| *before != set) else {
            return Ok(());
        };
        let [before, after] = [before, set].map(|set| InField(field, set));
        let instead = match field {
            Field::DayOfWeek => "name all days in one `days([..])`",
            Field::DayOfMonth => "name all days in one `days_of_month([..])`",
            Field::Hour | Field::Minute => {
                "say all of it in one `cron(..)` (`daily_at(..)`, `hourly()`, `hourly_at(..)`, `twice_daily(..)` and the \
                 `every_..` methods set it)"
            }
            Field::Month => "say all of it in one `cron(..)`",
        };
        let name = field.name();
        Err(format!("its {name} is set twice, as `{before}` and as `{after}`: leave one of them out, or {instead}"))
    }

    pub(crate) fn set_numbers(&mut self, field: Field, numbers: impl IntoIterator<Item = u32>) -> Result<(), String> {
        let (name, (first, last)) = (field.name(), field.ends());
        let mut set: Option<FieldSet> = None;
        for number in numbers {
            if !(first..=last).contains(&number) {
                return Err(format!("{name} {number} is outside of {first}-{last}"));
            }
            let one = FieldSet::only(number);
            set = Some(set.map_or(one, |set| set.with(one)));
        }
        let set = set.ok_or_else(|| format!("the list has no {name}, so that it would never be due"))?;
        self.set(field, set)
    }

    /// Sets the hour and the minute: `hh:mm`.
    pub(crate) fn set_time(&mut self, time: &str) -> Result<(), String> {
        let time = time_of_day(time)?;
        self.set(Field::Hour, FieldSet::only(time.hour()))?;
        self.set(Field::Minute, FieldSet::only(time.minute()))
    }

    /// Sets the seconds, the minutes or the hours to every `n`th.
    pub(crate) fn set_interval(&mut self, interval: Interval, n: u32) -> Result<(), String> {
        interval.check(n)?;
        match interval {
            Interval::Seconds => self.set_seconds(n),
            Interval::Minutes => self.set(Field::Minute, FieldSet::every_nth(Field::Minute, n)),
            Interval::Hours => self.set(Field::Hour, FieldSet::every_nth(Field::Hour, n)),
        }
    }

    fn set_seconds(&mut self, n: u32) -> Result<(), String> {
        match self.seconds.replace(Seconds::every_nth(n).unwrap_or(Seconds::FIRST)).map(Seconds::interval) {
            Some(before) if before != n => {
                Err(format!("it is due every {before} s and every {n} s: leave one of them out"))
            }
            _ => Ok(()),
        }
    }

    /// Takes midnight, or the start of an hour, for granted where nothing else sets these fields.
    pub(crate) fn default_to_zero(&mut self, fields: &[Field]) -> &mut Self {
        for field in fields {
            self.defaults[*field as usize] = Some(FieldSet::only(0));
        }
        self
    }

    fn has_words(&self) -> bool {
        self.seconds.is_some() || Field::ALL.into_iter().any(|field| self.get(field).is_some())
    }

    fn get(&self, field: Field) -> Option<FieldSet> {
        self.fields[field as usize].or(self.defaults[field as usize])
    }

    fn timetable_of_words(&self) -> Result<(Crontab, Seconds), String> {
        let crontab = self.crontab_of_words();
        if self.seconds.is_none() && self.get(Field::Hour).is_none() && self.get(Field::Minute).is_none() {
            return Err(format!(
                "it says on which days it is due, but not at what time: add `daily_at(\"02:30\")` or `hourly()`; for every \
                 minute of these days (`{crontab}`), add `every_minute()`"
            ));
        }
        // Days of the week don't make up for it: who names a date means it.
        if !crontab.day_of_month_comes() {
            let [day, month] = [Field::DayOfMonth, Field::Month].map(|field| InField(field, crontab.get(field)));
            return Err(format!(
                "day {day} of the month never comes in month {month}; the end of a month is `last_day_of_month(..)`"
            ));
        }
        Ok((crontab, self.seconds.unwrap_or(Seconds::FIRST)))
    }

    fn crontab_of_words(&self) -> Crontab {
        let mut crontab = Crontab::EVERY_MINUTE;
        for field in Field::ALL {
            crontab.set(field, self.get(field).unwrap_or(crontab.get(field)));
        }
        crontab
    }
}
