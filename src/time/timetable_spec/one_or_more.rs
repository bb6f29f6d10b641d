//! One value, or a list of values.

/// The argument of a method that takes one value or several values: a minute or a day of the week, or an array or a
/// [`Vec`] of these.
///
/// ```
/// use soloist::time::OneOrMore;
/// use soloist::Event;
///
/// fn every_hour(minutes: impl OneOrMore<u32>) -> Event {
///     Event::call("reports:generate", |_| {}).hourly_at(minutes)
/// }
/// let event = every_hour(17);
/// let event = every_hour([15, 45]);
/// let event = every_hour(vec![0, 20, 40]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is neither one `{T}` nor a list of them",
    note = "write a day of the week as `chrono::Weekday::Mon`, and a minute as a number; write several as an array or a `Vec`"
)]
pub trait OneOrMore<T>: sealed::Sealed<T> {
    /// Returns the values as a list.
    fn into_list(self) -> Vec<T>;
}

mod sealed {
    pub trait Sealed<T> {}

    impl<T> Sealed<T> for T {}
    impl<T, const N: usize> Sealed<T> for [T; N] {}
    impl<T> Sealed<T> for Vec<T> {}
}

impl<T> OneOrMore<T> for T {
    fn into_list(self) -> Vec<T> {
        vec![self]
    }
}

impl<T, const N: usize> OneOrMore<T> for [T; N] {
    fn into_list(self) -> Vec<T> {
        self.into()
    }
}

impl<T> OneOrMore<T> for Vec<T> {
    fn into_list(self) -> Vec<T> {
        self
    }
}
