//! What words say of a timetable, one field at a time, and whether that is all in one piece.

use super::error::FrequencyError;
use super::error::Problem;
use super::{TimeOfDay, listed};
use crate::time::crontab::Crontab;
use crate::time::crontab::field::{Field, FieldSet};
use crate::time::timetable::seconds::Seconds;

/// When an event is due, as far as it was said: by an expression, or in words.
#[derive(Clone, Debug, Default)]
pub(crate) struct When {
    expression: Option<Crontab>,
    words: Words,
}

impl When {
    pub(crate) fn by_expression(&mut self, crontab: Crontab) -> Result<(), FrequencyError> {
        match self.expression.replace(crontab) {
            Some(before) if before != crontab => Err(Problem::TwoExpressions(before, crontab).into()),
            _ => Ok(()),
        }
    }

    pub(crate) fn in_words(
        &mut self,
        say: impl FnOnce(&mut Words) -> Result<(), FrequencyError>,
    ) -> Result<(), FrequencyError> {
        say(&mut self.words)
    }

    /// `None`: nothing was said.
    pub(crate) fn timetable(&self) -> Result<Option<(Crontab, Seconds)>, FrequencyError> {
        match self.expression {
            Some(expression) if self.words.are_some() => Err(Problem::ExpressionAndWords(expression).into()),
            Some(expression) => Ok(Some((expression, Seconds::FIRST))),
            None if self.words.are_some() => self.words.timetable().map(Some),
            None => Ok(None),
        }
    }

    /// What the words stand for, complete or not.
    #[cfg(test)]
    pub(super) fn spelt_out(&self) -> (Crontab, Seconds) {
        (self.expression.unwrap_or_else(|| self.words.crontab()), self.words.seconds.unwrap_or(Seconds::FIRST))
    }
}

/// What words say. A field that none of them speaks of is `*`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words {
    said: [Option<FieldSet>; Field::ALL.len()],
    /// What a word takes for granted, such as midnight: it holds unless another word says something else.
    usual: [Option<u32>; Field::ALL.len()],
    seconds: Option<Seconds>,
}

impl Words {
    pub(super) fn say(&mut self, field: Field, set: FieldSet) -> Result<(), FrequencyError> {
        match self.said[field as usize].replace(set) {
            Some(before) if before != set => Err(Problem::SaidTwice { field, before, after: set }.into()),
            _ => Ok(()),
        }
    }

    pub(super) fn say_numbers(
        &mut self,
        field: Field,
        numbers: impl IntoIterator<Item = u32>,
    ) -> Result<(), FrequencyError> {
        self.say(field, listed(field, numbers)?)
    }

    pub(super) fn say_time(&mut self, time: TimeOfDay) -> Result<(), FrequencyError> {
        self.say(Field::Hour, FieldSet::only(time.hour))?;
        self.say(Field::Minute, FieldSet::only(time.minute))
    }

    pub(super) fn say_seconds(&mut self, seconds: Seconds) -> Result<(), FrequencyError> {
        match self.seconds.replace(seconds) {
            Some(before) if before != seconds => Err(Problem::SecondsTwice(before, seconds).into()),
            _ => Ok(()),
        }
    }

    pub(super) fn usually(&mut self, field: Field, number: u32) {
        self.usual[field as usize] = Some(number);
    }

    pub(super) fn usually_at_midnight(&mut self) {
        self.usually(Field::Hour, 0);
        self.usually(Field::Minute, 0);
    }

    fn are_some(&self) -> bool {
        self.seconds.is_some() || Field::ALL.into_iter().any(|field| self.speak_of(field))
    }

    fn speak_of(&self, field: Field) -> bool {
        self.said[field as usize].is_some() || self.usual[field as usize].is_some()
    }

    fn timetable(&self) -> Result<(Crontab, Seconds), FrequencyError> {
        let crontab = self.crontab();
        if self.seconds.is_none() && !self.speak_of(Field::Hour) && !self.speak_of(Field::Minute) {
            return Err(Problem::NoTime { crontab }.into());
        }
        // Days of the week don't make up for it: who names a date means it.
        if !crontab.day_of_month_comes() {
            return Err(Problem::NeverComes { crontab }.into());
        }
        Ok((crontab, self.seconds.unwrap_or(Seconds::FIRST)))
    }

    fn crontab(&self) -> Crontab {
        let mut crontab = Crontab::EVERY_MINUTE;
        for field in Field::ALL {
            let usual = || self.usual[field as usize].map(FieldSet::only);
            if let Some(set) = self.said[field as usize].or_else(usual) {
                crontab.set(field, set);
            }
        }
        crontab
    }
}
