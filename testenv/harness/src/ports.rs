//! Free loopback ports, each given out once.
//!
//! A port that `bind(0)` returned can be taken by any outgoing connection as soon as it is closed, because both come from the
//! kernel's ephemeral range. Ports are therefore taken *below* that range, starting at a random place. Across test processes
//! each port is guarded by a lock on a file in the temporary directory; the kernel frees the lock when the process ends, in any
//! way. Within the process the lock is held to the end, so that no port comes twice.

use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Mutex, PoisonError};

use crate::error::{Error, Result};

const LOWEST: u16 = 10_240;
/// The default lower end of Linux's ephemeral range, where the file in /proc cannot be read.
const EPHEMERAL: u16 = 32_768;

static TAKEN: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// A free loopback port that no other test on this machine gets while this process lives.
///
/// # Errors
/// [`Error::Ports`] when the whole range is taken or the lock directory cannot be written.
pub fn free() -> Result<u16> {
    let dir = std::env::temp_dir().join(format!("portcullis-ports-{}", rustix::process::getuid().as_raw()));
    std::fs::create_dir_all(&dir).map_err(Error::file("making", &dir))?;
    let size = usize::from(ephemeral_start().saturating_sub(LOWEST)).max(1);
    let start = RandomState::new().build_hasher().finish() as usize % size;
    for step in 0..size {
        let offset = u16::try_from((start + step) % size).unwrap_or(0);
        let port = LOWEST + offset;
        if let Some(lock) = take(&dir.join(port.to_string()), port) {
            TAKEN.lock().unwrap_or_else(PoisonError::into_inner).push(lock);
            return Ok(port);
        }
    }
    Err(Error::Ports(format!("all {size} ports from {LOWEST} on are taken")))
}

/// As [`free`], as a loopback socket address.
///
/// # Errors
/// As [`free`].
pub fn free_address() -> Result<SocketAddr> {
    Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, free()?)))
}

fn take(lock_path: &std::path::Path, port: u16) -> Option<File> {
    let lock = File::options().create(true).truncate(false).write(true).open(lock_path).ok()?;
    // flock is per open file: a second try in the same process is refused as well.
    lock.try_lock().ok()?;
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()?;
    Some(lock)
}

fn ephemeral_start() -> u16 {
    std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")
        .ok()
        .and_then(|text| text.split_whitespace().next()?.parse().ok())
        .filter(|start| *start > LOWEST)
        .unwrap_or(EPHEMERAL)
}
