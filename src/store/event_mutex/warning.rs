//! The warnings that the check of a store returns.

use std::fmt;

use crate::base::escape::OneLine;

/// A warning that a store can't keep all its promises, for example because of a setting of its server. `Display` writes
/// the text on one line, with the next step. [`EventMutex::check`](crate::EventMutex::check) returns the warnings of a
/// store.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// for warning in soloist::connect("redis://cache.internal")?.check()? {
///     eprintln!("{warning}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreWarning(String);

impl StoreWarning {
    /// Makes a warning with this text. Name the fault, its consequence, and the next step.
    ///
    /// ```
    /// use soloist::store::StoreWarning;
    ///
    /// let warning = StoreWarning::new("the disk is nearly full: delete old backups");
    /// assert_eq!(warning.to_string(), "the disk is nearly full: delete old backups");
    /// ```
    pub fn new(text: impl fmt::Display) -> Self {
        Self(OneLine(text).to_string())
    }

    /// Returns a warning if the version `found` of the server is older than `needed`. Compares the first two numbers
    /// only.
    #[cfg(feature = "server")]
    pub(crate) fn if_older(found: &str, needed: &'static str) -> Option<Self> {
        let numbers =
            |version: &str| -> Vec<u32> { version.split('.').take(2).map(|part| part.parse().unwrap_or(0)).collect() };
        let text = format_args!(
            "the server's version {found} is older than {needed}, the oldest that is supported: update it"
        );
        (numbers(found) < numbers(needed)).then(|| Self::new(text))
    }
}

impl fmt::Display for StoreWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
