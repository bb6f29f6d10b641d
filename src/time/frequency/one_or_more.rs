//! One value, or a list of values.

/// The argument of a method that takes one value or several values: a minute or a day of the week, or an array or a
/// [`Vec`] of these.
///
/// ```
/// use soloist::time::OneOrMore;
/// use soloist::Event;
///
/// let every_hour = |minutes: OneOrMore<u32>| Event::call("reports:generate", |_| {}).hourly_at(minutes);
/// let event = every_hour(17.into());
/// let event = every_hour([15, 45].into());
/// let event = every_hour(vec![0, 20, 40].into());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneOrMore<T>(Vec<T>);

impl<T> From<T> for OneOrMore<T> {
    fn from(one: T) -> Self {
        Self(vec![one])
    }
}

impl<T, const N: usize> From<[T; N]> for OneOrMore<T> {
    fn from(several: [T; N]) -> Self {
        Self(several.into())
    }
}

impl<T> From<Vec<T>> for OneOrMore<T> {
    fn from(several: Vec<T>) -> Self {
        Self(several)
    }
}

impl<T> IntoIterator for OneOrMore<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
