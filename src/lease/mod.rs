//! The types of the protocol: an owner requests a name, and a store grants the name for a term, with a token.

pub(crate) mod holder;
pub(crate) mod label;
pub(crate) mod name;
pub(crate) mod owner;
pub(crate) mod request;
pub(crate) mod store_id;
pub(crate) mod term;
pub(crate) mod token;
