use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use super::TerminationReason;
use crate::schedule::Wake;

/// A handle of a long-running stream, by which other threads end it or send it commands. The stream obeys on its worker.
#[derive(Debug)]
pub struct StreamHandle<W>(Arc<HandleState<W>>);

#[derive(Debug)]
struct HandleState<W> {
    waker: W,
    is_watch: bool,
    termination: OnceLock<TerminationReason>,
    /// Commands that were sent and not taken yet, one bit each.
    commands: AtomicU8,
    is_end_sent: AtomicBool,
    is_finished: AtomicBool,
}

/// A command to a stream of a proxy that shuts down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamCommand {
    /// Its connection takes no more requests.
    DrainConnection = 1,
    /// It ends, as if the upstream had ended it.
    End = 2,
}

impl<W> Clone for StreamHandle<W> {
    fn clone(&self) -> Self {
        StreamHandle(Arc::clone(&self.0))
    }
}

impl<W: Wake> StreamHandle<W> {
    /// A handle of a stream that runs.
    pub fn new(waker: W, is_watch: bool) -> Self {
        StreamHandle(Arc::new(HandleState {
            waker,
            is_watch,
            termination: OnceLock::new(),
            commands: AtomicU8::new(0),
            is_end_sent: AtomicBool::new(false),
            is_finished: AtomicBool::new(false),
        }))
    }

    /// Sends a command. Called from [`super::StreamRegistry::for_each`] only, while the stream cannot go.
    pub fn send(&self, command: StreamCommand) {
        self.0.commands.fetch_or(command as u8, Ordering::AcqRel);
        if command == StreamCommand::End {
            self.0.is_end_sent.store(true, Ordering::Release);
        }
        self.0.waker.wake();
    }

    /// Ends the stream for a reason; the first one counts.
    pub fn terminate(&self, why: TerminationReason) {
        self.0.termination.get_or_init(|| why);
        self.0.waker.wake();
    }

    /// Whether it is a watch that was not sent its end yet.
    pub fn is_open_watch(&self) -> bool {
        self.0.is_watch && !self.0.is_end_sent.load(Ordering::Acquire)
    }

    /// True for the first caller, who ends the response: a proxy keeps a stream whose client does not read, and must not end it
    /// again.
    pub fn finish_once(&self) -> bool {
        !self.0.is_finished.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn termination(&self) -> Option<TerminationReason> {
        self.0.termination.get().copied()
    }

    /// Whether each of the commands was sent since.
    pub(crate) fn take_commands<const N: usize>(&self, commands: [StreamCommand; N]) -> [bool; N] {
        let sent = self.0.commands.swap(0, Ordering::AcqRel);
        commands.map(|command| sent & command as u8 != 0)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn commands_are_taken_once_and_wake_the_stream() {
        let woken = Arc::<AtomicU32>::default();
        let handle = StreamHandle::new(Arc::clone(&woken), true);
        assert!(handle.is_open_watch());
        handle.send(StreamCommand::End);
        assert!(!handle.is_open_watch());
        let commands = [StreamCommand::DrainConnection, StreamCommand::End];
        assert_eq!([handle.take_commands(commands), handle.take_commands(commands)], [[false, true], [false, false]]);
        handle.terminate(TerminationReason::SessionLimit);
        handle.terminate(TerminationReason::ServerRemoved);
        assert_eq!((handle.termination(), woken.load(Ordering::Relaxed)), (Some(TerminationReason::SessionLimit), 3));
        assert_eq!([handle.finish_once(), handle.clone().finish_once()], [true, false]);
        assert!(!StreamHandle::new(woken, false).is_open_watch(), "a session is no watch");
    }
}
