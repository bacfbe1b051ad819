//! The store that `portcullis init` lays out, run by its own start scripts.

mod admission;
mod backup;
mod ending;
mod faults;
mod files;
mod fixture;
mod kills;
mod members;
mod rights;
mod serving;
mod snapshot;
mod upgrade;
