//! The least that a process costs: the floor of `cron_program`.

fn main() {}
