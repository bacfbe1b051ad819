//! The filter's logic on a host of our own.

mod host;
mod limits;
mod requests;
mod trailers;
