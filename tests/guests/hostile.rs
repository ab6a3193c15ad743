//! Guests whose NVTX calls make no sense, or are far too many.

use crate::cuda::{self, Stream};
use crate::nvtx::client;

/// Ends what was never started, and what was started twice; between that, wanted ranges.
pub fn bogus_ends() {
    cuda::init();
    let (nvtx, stream) = (client(), Stream::new());
    nvtx.end(0x4141_4141_4141_4141);
    let request = nvtx.start("want");
    stream.launch(3);
    nvtx.end(request);
    nvtx.end(request);
    for _ in 0..10 {
        nvtx.push(b"want");
        stream.launch(5);
        stream.synchronize();
        nvtx.end(request);
        nvtx.pop();
        stream.launch(2);
    }
    stream.synchronize();
}
