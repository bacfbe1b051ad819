//! Prints 200 free ports, one a line.

use portcullis_harness::{Error, ports};

fn main() -> Result<(), Error> {
    for _ in 0..200 {
        println!("{}", ports::free()?);
    }
    Ok(())
}
