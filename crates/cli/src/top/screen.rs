//! The terminal: input of keys and mouse, output of frames, and the restoration of its old state.

use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crossterm::cursor::Hide;
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseEvent};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{DefaultTerminal, Frame, Terminal};
use signal_hook::consts::{SIGCONT, SIGTSTP, SIGWINCH};
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write, stdin, stdout};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Reports of buttons and wheel, with coordinates of any size (xterm's modes 1000 and 1006). Moves
/// are not reported, because each would wake the process.
const MOUSE_ON: &str = "\x1b[?1000h\x1b[?1006h";
const MOUSE_OFF: &str = "\x1b[?1006l\x1b[?1000l";

/// Input of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// A key.
    Key(KeyEvent),
    /// The mouse, where it is on.
    Mouse(MouseEvent),
}

/// The screen. Dropping it restores the terminal. So does a panic, before its message is printed
/// (the hook of `ratatui::try_init`), and a stop by Ctrl-Z or SIGTSTP. Signals end the loop and
/// thereby drop it.
#[derive(Debug)]
pub struct Screen {
    terminal: DefaultTerminal,
    /// Readable on a key, a resize or a signal: one descriptor for all waits.
    wake: Epoll,
    signalled: UnixStream,
    stop: Arc<AtomicBool>,
    continued: Arc<AtomicBool>,
    mouse: bool,
    // Source of keys if that is not standard input.
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
        let (signalled, notify) = UnixStream::pair().map_err(failed("socket pair"))?;
        signalled
            .set_nonblocking(true)
            .map_err(failed("socket pair"))?;
        let (stop, continued) = (Arc::default(), Arc::default());
        for (signal, flag) in [
            (SIGWINCH, None),
            (SIGTSTP, Some(&stop)),
            (SIGCONT, Some(&continued)),
        ] {
            if let Some(flag) = flag {
                // The flag first: a thread that the descriptor wakes must find it set.
                signal_hook::flag::register(signal, Arc::clone(flag)).map_err(failed("signals"))?;
            }
            let notify = notify.try_clone().map_err(failed("socket pair"))?;
            signal_hook::low_level::pipe::register(signal, notify).map_err(failed("signals"))?;
        }
        // Keys come from standard input, or from /dev/tty when that is a pipe.
        let keyboard = match stdin().is_terminal() {
            true => None,
            false => Some(File::open("/dev/tty").map_err(failed("/dev/tty"))?),
        };
        let wake =
            Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(|e| failed("epoll")(e.into()))?;
        let stdin = stdin();
        let keys = keyboard.as_ref().map_or(stdin.as_fd(), |file| file.as_fd());
        for (data, fd) in [(0, interrupt.fd()), (1, signalled.as_fd()), (2, keys)] {
            wake.add(fd, EpollEvent::new(EpollFlags::EPOLLIN, data))
                .map_err(|e| failed("epoll")(e.into()))?;
        }
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            write_out(MOUSE_OFF);
            hook(info);
        }));
        let terminal = ratatui::try_init().map_err(failed("raw mode"))?;
        Ok(Screen {
            terminal,
            wake,
            signalled,
            stop,
            continued,
            mouse: false,
            keyboard,
        })
    }

    /// Descriptor that is readable when there is something to do before the interval ends.
    pub fn wake(&self) -> BorrowedFd<'_> {
        self.wake.0.as_fd()
    }

    /// Size of the screen.
    pub fn area(&self) -> Rect {
        self.terminal.size().map_or(Rect::ZERO, |size| {
            Rect::from((ratatui::layout::Position::ORIGIN, size))
        })
    }

    /// Switches the terminal between reporting the mouse and selecting text by it.
    pub fn set_mouse(&mut self, on: bool) {
        if self.mouse != on {
            write_out(if on { MOUSE_ON } else { MOUSE_OFF });
            self.mouse = on;
        }
    }

    /// Keys pressed since the last call.
    ///
    /// # Errors
    /// Fails when the terminal is gone: its window or its connection was closed.
    pub fn keys(&mut self) -> Result<Vec<KeyEvent>, Failure> {
        let key = |input| match input {
            Input::Key(key) => Some(key),
            Input::Mouse(_) => None,
        };
        Ok(self.inputs()?.into_iter().filter_map(key).collect())
    }

    /// Input of the user since the last call. A stop by job control happens in here.
    ///
    /// # Errors
    /// The errors of [`Screen::keys`].
    pub fn inputs(&mut self) -> Result<Vec<Input>, Failure> {
        let mut bytes = [0; 64];
        while self.signalled.read(&mut bytes).is_ok_and(|n| n > 0) {}
        if self.stop.swap(false, Ordering::Relaxed) {
            self.suspend()?;
        }
        if self.continued.swap(false, Ordering::Relaxed) {
            // A stop by SIGSTOP restored nothing, and the shell has set the terminal since.
            self.resume()?;
        }
        // crossterm (0.29, mio source) reads for ever from a terminal that was hung up.
        if self.is_hung_up() {
            return Err(lost(io::Error::other("it was closed")));
        }
        let mut inputs = Vec::new();
        while event::poll(Duration::ZERO).map_err(lost)? {
            match event::read().map_err(lost)? {
                Event::Key(key) if is_stop(&key) => self.suspend()?,
                Event::Key(key) if key.kind != KeyEventKind::Release => {
                    inputs.push(Input::Key(key))
                }
                Event::Mouse(mouse) => inputs.push(Input::Mouse(mouse)),
                _ => {}
            }
        }
        Ok(inputs)
    }

    /// Restores the terminal and stops, until SIGCONT.
    fn suspend(&mut self) -> Result<(), Failure> {
        write_out(MOUSE_OFF);
        ratatui::try_restore().map_err(lost)?;
        let stopped = signal_hook::low_level::emulate_default_handler(SIGTSTP);
        stopped.map_err(|e| Failure::failed(format!("cannot stop: {e}")))?;
        self.continued.store(false, Ordering::Relaxed);
        self.resume()
    }

    fn resume(&mut self) -> Result<(), Failure> {
        // Raw mode is not set again while crossterm takes it for set.
        disable_raw_mode().map_err(lost)?;
        enable_raw_mode().map_err(lost)?;
        crossterm::execute!(stdout(), EnterAlternateScreen).map_err(lost)?;
        if self.mouse {
            write_out(MOUSE_ON);
        }
        // Not Terminal::clear, which asks the terminal for its cursor and waits for the answer.
        crossterm::execute!(stdout(), Clear(ClearType::All), Hide).map_err(lost)?;
        self.terminal = Terminal::new(CrosstermBackend::new(stdout())).map_err(lost)?;
        Ok(())
    }

    fn is_hung_up(&self) -> bool {
        let stdin = stdin();
        let keys = self.keyboard.as_ref().map_or(stdin.as_fd(), |f| f.as_fd());
        let mut fds = [PollFd::new(keys, PollFlags::empty())];
        let hung_up = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
        let found = poll(&mut fds, PollTimeout::ZERO).is_ok_and(|n| n > 0);
        let [keys] = &fds;
        found
            && keys
                .revents()
                .is_some_and(|found| found.intersects(hung_up))
    }

    /// Draws one frame. A changed size takes effect.
    pub fn draw(&mut self, render: impl FnOnce(&mut Frame<'_>)) -> Result<(), Failure> {
        self.terminal.draw(render).map(|_| ()).map_err(lost)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // An error has no remedy: the terminal is gone.
        self.set_mouse(false);
        let _ = ratatui::try_restore();
    }
}

/// Whether `key` is Ctrl-Z, which raw mode delivers as a key.
fn is_stop(key: &KeyEvent) -> bool {
    key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('z')
}

/// Writes to the terminal. An error is left to the next frame, which fails too.
fn write_out(text: &str) {
    let mut out = stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn lost(error: io::Error) -> Failure {
    Failure::failed(format!("the terminal is lost: {error}"))
}
