//! A cluster passes from one instance to another, because its label is edited: with real Envoys of both, and clients of both.

mod answers;
mod limits;
mod owners;
mod seekers;
