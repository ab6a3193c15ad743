//! Exports of nsys as the loader reads them, against what nsys itself, the recorded kernels and a
//! plain query say.

mod bounded_work;
mod brute_force;
mod captures;
mod damage;
pub(crate) mod fixture;
