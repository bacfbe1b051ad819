//! A text that is drawn on a terminal again and again, until the reader ends it.

use std::io::{self, IsTerminal, Read, Write};
use std::time::Duration;

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::stop_signals::StopSignals;

/// The second screen of a terminal, without cursor and without wrapping; the way back.
const OPEN: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const CLOSE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// Whether a text can be drawn again and again: standard output is a terminal.
pub(crate) fn is_possible() -> bool {
    io::stdout().is_terminal()
}

/// Draws `frame` at each interval, and at once when a key is pressed, which it gets. Ends by `q`, and by the signals that ask a
/// program to stop.
pub(crate) async fn follow(interval: Duration, mut frame: impl AsyncFnMut(Option<char>) -> String) -> io::Result<()> {
    let mut stop = StopSignals::new()?;
    let screen = Screen::open()?;
    let mut keys = keys();
    let mut key = None;
    loop {
        let text = tokio::select! {
            text = frame(key.take()) => text,
            () = stop.recv() => return Ok(()),
        };
        screen.draw(&text)?;
        tokio::select! {
            () = sleep(interval) => {}
            () = stop.recv() => return Ok(()),
            pressed = pressed(&mut keys) => match pressed {
                'q' | '\u{3}' | '\u{4}' => return Ok(()),
                other => key = Some(other),
            },
        }
    }
}

/// Waits for a key; without end where there are none.
async fn pressed(keys: &mut mpsc::Receiver<char>) -> char {
    match keys.recv().await {
        Some(key) => key,
        None => std::future::pending().await,
    }
}

/// Keys as they are pressed. The thread ends with the process: nothing wakes it from standard input.
fn keys() -> mpsc::Receiver<char> {
    let (sender, receiver) = mpsc::channel(1);
    if io::stdin().is_terminal() {
        std::thread::spawn(move || {
            let mut one = [0];
            while io::stdin().lock().read(&mut one).is_ok_and(|read| read > 0) {
                let [byte] = one;
                if sender.blocking_send(char::from(byte)).is_err() {
                    return;
                }
            }
        });
    }
    receiver
}

/// The terminal, which is as before when this is dropped.
struct Screen {
    before: Option<Termios>,
}

impl Screen {
    fn open() -> io::Result<Self> {
        // Keys come without Enter, and are not shown. Ctrl-C stays a signal.
        let before = tcgetattr(io::stdin()).ok();
        if let Some(before) = &before {
            let mut keys = before.clone();
            keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            tcsetattr(io::stdin(), OptionalActions::Now, &keys)?;
        }
        let screen = Self { before };
        write(OPEN)?;
        Ok(screen)
    }

    fn draw(&self, text: &str) -> io::Result<()> {
        let rows = tcgetwinsize(io::stdout()).map_or(24, |size| usize::from(size.ws_row).max(2));
        write(&drawn(text, rows))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = write(CLOSE);
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

/// The sequence that replaces what is on a screen of so many rows.
fn drawn(text: &str, rows: usize) -> String {
    let lines: Vec<&str> = text.lines().take(rows).collect();
    let mut drawn = String::from("\x1b[H");
    for (number, line) in lines.iter().enumerate() {
        drawn.push_str(if number > 0 { "\r\n" } else { "" });
        drawn.push_str(line);
        drawn.push_str("\x1b[K");
    }
    drawn.push_str("\x1b[J");
    drawn
}

fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn screen_shows_the_first_lines_and_nothing_of_before() {
        assert_eq!(drawn("a\nb\nc\n", 2), "\x1b[Ha\x1b[K\r\nb\x1b[K\x1b[J");
        assert_eq!(drawn("", 2), "\x1b[H\x1b[J");
    }
}
