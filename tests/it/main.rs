//! The library as its users see it, one module a topic.

mod contract;
