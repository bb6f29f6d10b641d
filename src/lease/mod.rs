//! The words of the protocol: a name is asked for, and granted to an owner for a term, under a token.

pub(crate) mod holder;
pub(crate) mod label;
pub(crate) mod name;
pub(crate) mod owner;
pub(crate) mod request;
pub(crate) mod store_id;
pub(crate) mod term;
pub(crate) mod token;
