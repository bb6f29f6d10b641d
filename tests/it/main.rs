//! What is promised, seen from outside.

mod crontab;
