//! The results of a tick: the outcome of a run, the reason of a skip, the record of a run in a log, a pause.

/// Defines the keyword of each value of an enum, and the words with which `Display` shows the value in a sentence.
macro_rules! keywords {
    ($(#[$about:meta])+ $type:ident: $($value:ident $keyword:literal $words:literal,)+) => {
        impl $type {
            $(#[$about])+
            pub const fn keyword(self) -> &'static str {
                match self {
                    $(Self::$value => $keyword,)+
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self {
                    $(Self::$value => $words,)+
                })
            }
        }
    };
}

pub(crate) mod cancel;
pub(crate) mod command_exit;
pub(crate) mod fault;
pub(crate) mod no_retry;
pub(crate) mod paused;
pub(crate) mod release;
pub(crate) mod run_outcome;
pub(crate) mod run_record;
pub(crate) mod skip_reason;
