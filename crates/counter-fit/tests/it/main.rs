//! Amounts per call of each kernel kind from samples: simulated, recorded and hostile.

mod hostile;
mod recorded;
mod truth;
