//! A load generator: many connections, each with requests from a table, in a closed or an open
//! loop. It generates more load than a Linux client on one CPU can.

use crate::session::{Application, Connection, Event, Session};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Connections that open at a time, because a listener's backlog is finite.
const OPENING: usize = 64;

/// A request, and its expected answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Bytes of the request.
    pub bytes: Vec<u8>,
    /// Length of the answer, at least 1.
    pub answer_bytes: u32,
    /// First byte of the answer.
    pub first: u8,
}

#[derive(Default)]
struct Flow {
    /// Unanswered requests: the time at which each was due, and its number.
    due: VecDeque<(Instant, u32)>,
    /// Bytes received of the oldest one's answer.
    partial: u32,
    is_open: bool,
}

/// Times at which requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pace {
    /// No requests are sent.
    Hold,
    /// The next request at each answer, on the same connection or, with fewer requests than
    /// connections, on another.
    Closed { each: bool },
    /// A new connection for the next request at each answer; the old one is reset.
    Fresh,
    /// One request in each period over all connections, whether answers arrive or not.
    Open(Duration),
}

/// The generator. Its owner drives it by [`Load::pump`] and by turns of the event loop.
pub struct Load {
    remote: SocketAddr,
    ports: u16,
    wanted: usize,
    begun: usize,
    requests: Vec<Request>,
    next_request: usize,
    /// Requests of [`Load::send_once`] that are not sent, and answers that are outstanding, while
    /// `pace` is `Hold`.
    once: usize,
    pace: Pace,
    next: Instant,
    turn: usize,
    /// Flows, by position of their connection.
    flows: Vec<Flow>,
    order: Vec<Connection>,
    unanswered: usize,
    /// Requests that were not taken completely: connection, request, bytes taken.
    unsent: VecDeque<(Connection, u32, usize)>,
    /// Nanoseconds from the time at which each request was due to its answer; filled while
    /// measuring.
    times: Option<Vec<u32>>,
    /// Connections that the peer or the dataplane ended.
    pub lost: u64,
    /// Answers with a wrong first byte.
    pub wrong: u64,
}

impl Load {
    /// A generator of requests to the server at `remote` over `connections`, which go to `ports`
    /// ports from that one on.
    pub fn new(remote: SocketAddr, ports: u16, connections: usize) -> Load {
        Load {
            remote,
            ports: ports.max(1),
            wanted: connections,
            begun: 0,
            requests: Vec::new(),
            next_request: 0,
            once: 0,
            pace: Pace::Hold,
            next: Instant::now(),
            turn: 0,
            flows: Vec::with_capacity(connections),
            order: Vec::with_capacity(connections),
            unanswered: 0,
            unsent: VecDeque::new(),
            times: None,
            lost: 0,
            wrong: 0,
        }
    }

    /// Whether all connections are open.
    pub fn is_open(&self) -> bool {
        self.order.len() >= self.wanted
    }

    /// Number of open connections.
    pub fn open_connections(&self) -> usize {
        self.order.len()
    }

    /// Sends each of `requests` once, on the connections in turn, some at a time. [`Load::is_done`]
    /// is true when all are answered. The connections must be open.
    pub fn send_once(&mut self, session: &mut Session, requests: Vec<Request>) {
        self.start(requests);
        self.once = self.requests.len();
        let now = Instant::now();
        for _ in 0..OPENING {
            self.ask_once(session, now);
        }
        session.flush();
    }

    fn start(&mut self, requests: Vec<Request>) {
        self.requests = requests;
        self.next_request = 0;
    }

    /// Whether every request has been sent and answered.
    pub fn is_done(&self) -> bool {
        self.once == 0 && self.unanswered == 0
    }

    /// Sends `requests` in a cycle at `rate` a second in total. Each is timed from the moment at
    /// which it was due. The connections must be open.
    pub fn send_at(&mut self, requests: Vec<Request>, rate: f64) {
        self.start(requests);
        self.pace = Pace::Open(Duration::from_secs_f64(1.0 / rate));
        self.next = Instant::now();
    }

    /// Sends `requests` in a cycle, the next one at each answer. Each connection has one request
    /// outstanding, or `most` of them in turn have. The connections must be open.
    pub fn send_closed(&mut self, session: &mut Session, requests: Vec<Request>, most: usize) {
        let each = self.order.len() <= most;
        self.begin(session, requests, Pace::Closed { each }, most);
    }

    /// Sends `requests` in a cycle, each on a connection of its own that is reset at the answer, as
    /// many at a time as there are connections. Each is timed from the opening of its connection.
    /// The connections must be open.
    pub fn send_fresh(&mut self, session: &mut Session, requests: Vec<Request>) {
        self.begin(session, requests, Pace::Fresh, usize::MAX);
    }

    /// Sends the first requests of a closed loop, `most` at once.
    fn begin(&mut self, session: &mut Session, requests: Vec<Request>, pace: Pace, most: usize) {
        self.start(requests);
        self.pace = pace;
        let now = Instant::now();
        for _ in 0..self.order.len().min(most) {
            self.ask_next(session, now);
        }
        session.flush();
    }

    /// Starts to record times, with room for `expected` answers.
    pub fn measure(&mut self, expected: usize) {
        self.times = Some(Vec::with_capacity(expected));
    }

    /// Times of the answers since [`Load::measure`] in nanoseconds, at most 4.29 s each.
    pub fn measured(&mut self) -> Vec<u32> {
        self.times.take().unwrap_or_default()
    }

    /// Age of each unanswered request in nanoseconds. A measurement without them would hide a
    /// stall.
    pub fn waiting(&self) -> impl Iterator<Item = u64> {
        let now = Instant::now();
        let flows = self.flows.iter().flat_map(|f| &f.due);
        flows.map(move |(due, _)| nanos(now, *due))
    }

    /// Sends the requests that are due. Returns whether there were any.
    pub fn pump(&mut self, session: &mut Session) -> bool {
        let mut any = self.send_on(session);
        let Pace::Open(period) = self.pace else {
            return any;
        };
        let now = Instant::now();
        // A request that does not fit stays due since then.
        while self.next <= now && self.unsent.is_empty() {
            let Some(connection) = self.next_connection() else {
                break;
            };
            let due = self.next;
            self.next += period;
            self.ask(session, connection, due);
            any = true;
        }
        any
    }

    /// Sends the next request on the next idle connection.
    fn ask_next(&mut self, session: &mut Session, now: Instant) {
        for _ in 0..self.order.len() {
            let Some(connection) = self.next_connection() else {
                return;
            };
            let flow = self.flows.get(connection.place());
            if flow.is_some_and(|f| f.is_open && f.due.is_empty()) {
                return self.ask(session, connection, now);
            }
        }
    }

    fn ask_once(&mut self, session: &mut Session, now: Instant) {
        if self.once > 0
            && let Some(connection) = self.next_connection()
        {
            self.once -= 1;
            self.ask(session, connection, now);
        }
    }

    fn next_connection(&mut self) -> Option<Connection> {
        if self.turn >= self.order.len() {
            self.turn = 0;
        }
        let connection = self.order.get(self.turn).copied();
        self.turn += 1;
        connection
    }

    fn ask(&mut self, session: &mut Session, connection: Connection, due: Instant) {
        if self.flow(connection).is_open {
            let index = self.falls_due(connection, due);
            self.send(session, connection, index);
        }
    }

    /// Records a request that is due on `connection`. Returns its number.
    fn falls_due(&mut self, connection: Connection, due: Instant) -> u32 {
        if self.next_request >= self.requests.len() {
            self.next_request = 0;
        }
        let index = self.next_request as u32;
        self.next_request += 1;
        self.flow(connection).due.push_back((due, index));
        self.unanswered += 1;
        index
    }

    fn send(&mut self, session: &mut Session, connection: Connection, index: u32) {
        let Some(request) = self.requests.get(index as usize) else {
            return;
        };
        let sent = match self.unsent.is_empty() {
            true => session.send(connection, &request.bytes),
            false => 0,
        };
        if sent < request.bytes.len() {
            self.unsent.push_back((connection, index, sent));
        }
    }

    fn flow(&mut self, connection: Connection) -> &mut Flow {
        let place = connection.place();
        if self.flows.len() <= place {
            self.flows.resize_with(place + 1, Flow::default);
        }
        &mut self.flows[place]
    }

    /// Opens a connection for one request.
    fn renew(&mut self, session: &mut Session) {
        let connection = self.connect(session);
        self.falls_due(connection, Instant::now());
    }

    /// Opens a connection to the next port.
    fn connect(&mut self, session: &mut Session) -> Connection {
        let mut remote = self.remote;
        remote.set_port(remote.port() + (self.begun % usize::from(self.ports)) as u16);
        self.begun += 1;
        session.connect(remote)
    }

    /// Sends more of the requests that did not fit. Returns whether any byte was taken.
    fn send_on(&mut self, session: &mut Session) -> bool {
        let mut any = false;
        while let Some((connection, index, sent)) = self.unsent.front_mut() {
            let is_open = self
                .flows
                .get(connection.place())
                .is_some_and(|f| f.is_open);
            let request = self.requests.get(*index as usize);
            let rest = request
                .and_then(|r| r.bytes.get(*sent..))
                .unwrap_or_default();
            if is_open {
                let more = session.send(*connection, rest);
                *sent += more;
                any |= more > 0;
                if more < rest.len() {
                    break;
                }
            }
            self.unsent.pop_front();
        }
        any
    }

    fn answered(&mut self, session: &mut Session, connection: Connection, mut data: &[u8]) {
        let Some(flow) = self.flows.get_mut(connection.place()) else {
            return;
        };
        let now = Instant::now();
        let mut answers = 0;
        while let (Some(first), Some((due, index))) = (data.first(), flow.due.front().copied()) {
            let Some(request) = self.requests.get(index as usize) else {
                break;
            };
            self.wrong += u64::from(flow.partial == 0 && *first != request.first);
            let missing = request.answer_bytes - flow.partial;
            if (data.len() as u32) < missing {
                flow.partial += data.len() as u32;
                break;
            }
            data = data.get(missing as usize..).unwrap_or_default();
            flow.partial = 0;
            flow.due.pop_front();
            if let Some(times) = &mut self.times {
                times.push(u32::try_from(nanos(now, due)).unwrap_or(u32::MAX));
            }
            answers += 1;
        }
        self.unanswered -= answers;
        for _ in 0..answers {
            match self.pace {
                Pace::Closed { each: true } => self.ask(session, connection, now),
                Pace::Closed { each: false } => self.ask_next(session, now),
                Pace::Fresh => {
                    self.flow(connection).is_open = false;
                    session.abort(connection);
                }
                Pace::Hold => self.ask_once(session, now),
                Pace::Open(_) => {}
            }
        }
    }

    fn open_more(&mut self, session: &mut Session) {
        while self.begun < self.wanted && self.begun < self.order.len() + OPENING {
            self.connect(session);
        }
    }
}

fn nanos(now: Instant, due: Instant) -> u64 {
    u64::try_from(now.saturating_duration_since(due).as_nanos()).unwrap_or(u64::MAX)
}

impl Application for Load {
    fn start(&mut self, session: &mut Session) {
        self.open_more(session);
    }

    fn event(&mut self, session: &mut Session, event: Event) {
        match event {
            Event::Received { connection, data } => self.answered(session, connection, &data),
            Event::Connected { connection, .. } => {
                let flow = self.flow(connection);
                flow.is_open = true;
                let due = flow.due.front().copied();
                self.order.push(connection);
                match due {
                    Some((_, index)) => self.send(session, connection, index),
                    None => self.open_more(session),
                }
            }
            Event::Dead { connection, .. } => {
                let flow = std::mem::take(self.flow(connection));
                self.unanswered -= flow.due.len();
                self.order.retain(|c| *c != connection);
                let is_fresh = self.pace == Pace::Fresh;
                // The generator itself ended a connection that has its answer.
                self.lost += u64::from(!is_fresh || !flow.due.is_empty());
                if is_fresh {
                    self.renew(session);
                }
            }
            _ => {}
        }
    }
}
