//! The terminal: taken over while `top` runs, given back whatever happens.

use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use ratatui::{DefaultTerminal, Frame};
use signal_hook::consts::SIGWINCH;
use std::fs::File;
use std::io::{self, IsTerminal, Read, stdin};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The screen. Dropping it restores the terminal; so does a panic, before its message is
/// printed (the hook of `ratatui::try_init`). Signals end the loop and so drop it.
#[derive(Debug)]
pub struct Screen {
    terminal: DefaultTerminal,
    /// Readable on a key, a resize or a signal: one descriptor for all waiters.
    wake: Epoll,
    resized: UnixStream,
    // Where keys come from, when that is not standard input.
    keyboard: Option<File>,
}

impl Screen {
    /// Takes the terminal over.
    pub fn open(interrupt: &Interrupt) -> Result<Screen, Failure> {
        let failed = |what: &'static str| {
            move |e: io::Error| {
                Failure::failed(format!("the terminal cannot be used ({what}): {e}"))
            }
        };
        let (resized, notify) = UnixStream::pair().map_err(failed("socket pair"))?;
        resized
            .set_nonblocking(true)
            .map_err(failed("socket pair"))?;
        signal_hook::low_level::pipe::register(SIGWINCH, notify).map_err(failed("SIGWINCH"))?;
        // Keys come from standard input, or from /dev/tty when that is a pipe.
        let keyboard = match stdin().is_terminal() {
            true => None,
            false => Some(File::open("/dev/tty").map_err(failed("/dev/tty"))?),
        };
        let wake =
            Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(|e| failed("epoll")(e.into()))?;
        let stdin = stdin();
        let keys = keyboard.as_ref().map_or(stdin.as_fd(), |file| file.as_fd());
        for (data, fd) in [(0, interrupt.fd()), (1, resized.as_fd()), (2, keys)] {
            wake.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, data))
                .map_err(|e| failed("epoll")(e.into()))?;
        }
        let terminal = ratatui::try_init().map_err(failed("raw mode"))?;
        Ok(Screen {
            terminal,
            wake,
            resized,
            keyboard,
        })
    }

    /// Readable when there is something to do before the interval ends.
    pub fn wake(&self) -> BorrowedFd<'_> {
        self.wake.0.as_fd()
    }

    /// The keys pressed since the last call.
    ///
    /// # Errors
    /// When the terminal is gone: its window was closed, or the connection to it.
    pub fn keys(&mut self) -> Result<Vec<KeyEvent>, Failure> {
        // crossterm (0.29, mio source) reads a terminal that was hung up for ever.
        if self.is_hung_up() {
            return Err(lost(io::Error::other("it was closed")));
        }
        let mut bytes = [0; 64];
        while self.resized.read(&mut bytes).is_ok_and(|n| n > 0) {}
        let mut keys = Vec::new();
        while event::poll(Duration::ZERO).map_err(lost)? {
            if let Event::Key(key) = event::read().map_err(lost)?
                && key.kind != KeyEventKind::Release
            {
                keys.push(key);
            }
        }
        Ok(keys)
    }

    fn is_hung_up(&self) -> bool {
        let stdin = stdin();
        let keys = self.keyboard.as_ref().map_or(stdin.as_fd(), |f| f.as_fd());
        let mut fds = [PollFd::new(keys, PollFlags::empty())];
        let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
        let found = poll(&mut fds, PollTimeout::ZERO).is_ok_and(|n| n > 0);
        let [keys] = &fds;
        found && keys.revents().is_some_and(|found| found.intersects(gone))
    }

    /// Draws one frame. A size that changed is taken in.
    pub fn draw(&mut self, render: impl FnOnce(&mut Frame<'_>)) -> Result<(), Failure> {
        self.terminal.draw(render).map(|_| ()).map_err(lost)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nothing is left to do about an error: the terminal is gone.
        let _ = ratatui::try_restore();
    }
}

fn lost(error: io::Error) -> Failure {
    Failure::failed(format!("the terminal is lost: {error}"))
}
