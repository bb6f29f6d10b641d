//! An empty program. Its time is the least cost of a process: `cron_program` is compared with it.

fn main() {}
