//! Messages to the service manager that started this process, by systemd's protocol sd_notify(3): ready, stopping, alive, and a
//! line that `systemctl status` shows. Without a service manager nothing is sent.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use tokio::sync::watch;

/// The variables by which a service manager announces itself. They are this process's own: no child is to inherit them.
pub(crate) const VARIABLES: [&str; 3] = ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"];

/// The interval of signs of life where none are asked for.
const WITHOUT_WATCHDOG: Duration = Duration::from_secs(3600);

/// The service manager, if there is one.
#[derive(Debug, Default)]
pub(crate) struct ServiceManager {
    socket: Option<UnixDatagram>,
    /// The time without a sign of life after which the service manager kills this process.
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// The service manager that the environment names. One that cannot be reached is reported, and no reason to stop: it ends
    /// a service that never gets ready.
    pub(crate) fn from_environment() -> Self {
        let [address, interval, pid] = VARIABLES.map(std::env::var_os);
        let Some(address) = address else { return Self::default() };
        match Self::connect(&address) {
            Ok(socket) => Self { socket: Some(socket), watchdog: watchdog(interval, pid, std::process::id()) },
            Err(error) => {
                tracing::warn!(%error, ?address, "the service manager cannot be reached");
                Self::default()
            }
        }
    }

    /// Connects to a path, or to the abstract name behind an `@`.
    fn connect(address: &OsStr) -> io::Result<UnixDatagram> {
        let address = match address.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            path => SocketAddr::from_pathname(OsStr::from_bytes(path))?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        // A service manager that does not read must not stop this process.
        socket.set_nonblocking(true)?;
        Ok(socket)
    }

    /// Announces that this process is about to end.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=stopping");
    }

    /// Announces the first state that is ready, every change of the reason why one is not, and life as long as there is any.
    /// Goes on until it is dropped, or the state's sender is.
    pub(crate) async fn follow<T>(
        &self,
        mut state: watch::Receiver<T>,
        unready_reason: impl Fn(&T) -> Option<&'static str>,
        is_alive: impl Fn(&T) -> bool,
    ) {
        let interval = self.watchdog.unwrap_or(WITHOUT_WATCHDOG) / 3;
        let mut announced = None;
        loop {
            let (reason, alive) = {
                let state = state.borrow_and_update();
                (unready_reason(&state), is_alive(&state))
            };
            if announced != Some(reason) {
                match reason {
                    None => self.send("READY=1\nSTATUS=ready"),
                    Some(reason) => self.send(&format!("STATUS={reason}")),
                }
                announced = Some(reason);
            }
            if alive && self.watchdog.is_some() {
                self.send("WATCHDOG=1");
            }
            if let Ok(Err(_)) = tokio::time::timeout(interval, state.changed()).await {
                return;
            }
        }
    }

    fn send(&self, message: &str) {
        let Some(socket) = &self.socket else { return };
        if let Err(error) = socket.send(message.as_bytes()) {
            tracing::warn!(%error, "the service manager cannot be notified");
        }
    }
}

/// The interval of the watchdog, if it is this process's.
fn watchdog(interval: Option<OsString>, pid: Option<OsString>, own: u32) -> Option<Duration> {
    let number = |text: OsString| text.to_str()?.parse::<u64>().ok();
    if pid.is_some_and(|pid| number(pid) != Some(u64::from(own))) {
        return None;
    }
    interval.and_then(number).filter(|&interval| interval > 0).map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        let length = socket.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    }

    #[test]
    fn path_and_abstract_name_are_reached() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let name = format!("portcullis-test-{}", std::process::id());
        let abstract_address = SocketAddr::from_abstract_name(&name).unwrap();
        for (listener, address) in [
            (UnixDatagram::bind(&path).unwrap(), path.clone().into_os_string()),
            (UnixDatagram::bind_addr(&abstract_address).unwrap(), OsString::from(format!("@{name}"))),
        ] {
            listener.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let manager = ServiceManager { socket: Some(ServiceManager::connect(&address).unwrap()), watchdog: None };
            manager.stopping();
            assert_eq!(receive(&listener), "STOPPING=1\nSTATUS=stopping", "{address:?}");
        }
        assert!(ServiceManager::connect(OsStr::new("/nowhere/notify")).is_err());
    }

    #[tokio::test]
    async fn readiness_is_announced_once_and_life_until_it_ends() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let listener = tokio::net::UnixDatagram::bind(&path).unwrap();
        let socket = Some(ServiceManager::connect(path.as_os_str()).unwrap());
        let manager = ServiceManager { socket, watchdog: Some(Duration::from_millis(30)) };
        let (sender, state) = watch::channel((false, true));
        let follow =
            manager.follow(state, |(ready, _)| if *ready { None } else { Some("waiting") }, |(_, alive)| *alive);
        let next = async || {
            let mut buffer = [0; 256];
            let length = listener.recv(&mut buffer).await.unwrap();
            String::from_utf8(buffer[..length].to_vec()).unwrap()
        };
        let observe = async {
            assert_eq!(next().await, "STATUS=waiting");
            assert_eq!(next().await, "WATCHDOG=1");
            sender.send((true, true)).unwrap();
            while next().await != "READY=1\nSTATUS=ready" {}
            // The timer sends it, without a change of the state.
            assert_eq!([next().await, next().await], ["WATCHDOG=1"; 2]);
            sender.send((false, false)).unwrap();
            while next().await != "STATUS=waiting" {}
            drop(sender);
        };
        tokio::time::timeout(Duration::from_secs(20), async { tokio::join!(follow, observe) }).await.unwrap();
        assert!(listener.try_recv(&mut [0; 256]).is_err(), "a dead process gives no sign of life");
    }

    #[test]
    fn watchdog_is_for_the_process_that_it_names() {
        let text = |text: &str| Some(OsString::from(text));
        let minute = Some(Duration::from_secs(60));
        assert_eq!(watchdog(text("60000000"), text("7"), 7), minute);
        assert_eq!(watchdog(text("60000000"), None, 7), minute);
        assert_eq!(watchdog(text("60000000"), text("8"), 7), None);
        for wrong in [None, text("0"), text("soon"), text("-1")] {
            assert_eq!(watchdog(wrong, None, 7), None);
        }
    }
}
