//! TODO

pub(crate) mod background;
mod desk;
pub(crate) mod foreground;
mod one_run;
