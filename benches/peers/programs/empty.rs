//! An empty program: the least cost of a process, with which `cron_program` is compared.

fn main() {}
