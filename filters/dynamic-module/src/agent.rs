//! Commands of the agent that runs this Envoy, and answers to it, over Envoy's standard input: a socket of which the agent alone
//! holds the other end. One thread reads and answers, so that neither a worker nor Envoy's main thread makes pages.

use std::io::{self, BufRead, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Once;
use std::thread;
use std::time::Duration;

use envoy_abi::guard::guard;
use envoy_abi::log;
use portcullis_filter_config::names;
use portcullis_report::channel::{ANNOUNCEMENT, Command, write_answer};
use portcullis_report::limits::PartsMessage;

use crate::{limits, long_streams, memory};

static STARTED: Once = Once::new();
/// Time that the agent may take to read a part of an answer. One that reads nothing gets no further answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// Whether an agent runs this Envoy.
pub(crate) fn is_there() -> bool {
    std::env::var_os(names::AGENT_VARIABLE).is_some()
}

/// Starts to read the agent's commands, if an agent runs this Envoy.
pub(crate) fn listen() {
    STARTED.call_once(|| {
        if !is_there() {
            return;
        }
        if thread::Builder::new().name("portcullis-agent".to_owned()).spawn(serve).is_err() {
            log::error("portcullis: the thread that listens to the agent could not be started; watches end with Envoy");
        }
    });
}

/// Obeys until the input ends: with the agent, and Envoy ends with it as well.
fn serve() {
    let mut answers = Answers::open();
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        match Command::parse(&line) {
            Some(Command::Drain(time)) => long_streams::shut_down(time),
            Some(Command::Activity(number)) => answers = answers.and_then(|answers| answers.activity(number)),
            Some(Command::Limits(number)) => answers = answers.and_then(|answers| answers.limits(number)),
            Some(Command::Parts(message)) => {
                // A panic must not end the thread, which has watches to end later.
                let apply = || PartsMessage::read(&message).iter().for_each(limits::apply);
                let _ = guard("portcullis: a panic while parts of limits were applied", apply);
            }
            None => log::error("portcullis: the agent sent a command that this module does not know"),
        }
    }
}

/// The way back to the agent.
struct Answers {
    socket: UnixStream,
    process: u64,
}

impl Answers {
    /// Announces to the agent that it may ask. `None` where standard input is no socket: its agent is older than this module.
    fn open() -> Option<Self> {
        let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned().ok()?);
        socket.set_write_timeout(Some(WRITE_TIMEOUT)).ok()?;
        let mut answers = Answers { socket, process: (*memory::PROCESS)? };
        writeln!(answers.socket, "{ANNOUNCEMENT}").ok()?;
        Some(answers)
    }

    /// Answers with the activity. `None` if the agent does not read, which ends the answers.
    fn activity(self, number: u64) -> Option<Self> {
        let process = self.process;
        self.answer(number, || serde_json::to_vec(&memory::activity(process)).unwrap_or_default())
    }

    /// Answers with the use of limits that gateways share.
    fn limits(self, number: u64) -> Option<Self> {
        let process = self.process;
        self.answer(number, || limits::report(process))
    }

    fn answer(self, number: u64, page: impl FnOnce() -> Vec<u8>) -> Option<Self> {
        let page = guard("portcullis: a panic while a page for the agent was made", page).unwrap_or_default();
        if write_answer(&self.socket, number, &page).is_err() {
            let _ = self.socket.shutdown(Shutdown::Write);
            return None;
        }
        Some(self)
    }
}
