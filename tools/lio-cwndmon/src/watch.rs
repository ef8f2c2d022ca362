// SPDX-License-Identifier: GPL-2.0-only
//! The live table, with the latest events below it.

use crate::table;
use crossterm::event::{self, Event, KeyCode, KeyModifiers};
use crossterm::terminal::{self, Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen};
use crossterm::{cursor, execute, queue};
use cwnd_netlink::{Client, EVENTS, News};
use std::collections::VecDeque;
use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

const EVENTS_KEPT: usize = 100;

pub fn watch(client: &Client, period_ms: u32) -> Result<(), Box<dyn Error>> {
    if !io::stdout().is_terminal() {
        return Err("watch needs a terminal; show and record do not".into());
    }
    // Before the screen is taken: an error of permission stays readable.
    client.connections()?;
    terminal::enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)?;
    let result = refresh(client, Duration::from_millis(period_ms.into()));
    execute!(io::stdout(), cursor::Show, LeaveAlternateScreen)?;
    terminal::disable_raw_mode()?;
    result
}

fn refresh(client: &Client, period: Duration) -> Result<(), Box<dyn Error>> {
    let mut listener = client.listen(&[EVENTS])?;
    let mut events = VecDeque::new();
    loop {
        loop {
            let news = listener.receive()?;
            if news.is_empty() {
                break;
            }
            for news in news {
                match news {
                    News::Event(event) => events.push_front(table::event(&event)),
                    News::Lost => events.push_front("(some events were lost)".into()),
                    News::Sample(_) => {}
                }
            }
            events.truncate(EVENTS_KEPT);
        }
        draw(&table::of(&client.connections()?), &events)?;
        if quit_within(period)? {
            return Ok(());
        }
    }
}

fn draw(table: &str, events: &VecDeque<String>) -> io::Result<()> {
    let (columns, rows) = terminal::size()?;
    let mut out = io::stdout().lock();
    queue!(out, cursor::MoveTo(0, 0))?;
    let head = "lio-cwndmon: q quits. Latest events at the top below the table.";
    let lines = [head, ""].into_iter().chain(table.lines()).chain([""]).chain(events.iter().map(String::as_str));
    for (row, line) in (0..rows).zip(lines) {
        let line: String = line.chars().take(columns.into()).collect();
        queue!(out, cursor::MoveTo(0, row), Clear(ClearType::CurrentLine))?;
        write!(out, "{line}")?;
    }
    queue!(out, Clear(ClearType::FromCursorDown))?;
    out.flush()
}

/// Waits; true if the user has had enough.
fn quit_within(period: Duration) -> io::Result<bool> {
    let until = Instant::now() + period;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || !event::poll(left)? {
            return Ok(false);
        }
        match event::read()? {
            Event::Key(key) if matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) => return Ok(true),
            Event::Key(key) if key.code == KeyCode::Char('c') && key.modifiers == KeyModifiers::CONTROL => {
                return Ok(true);
            }
            Event::Resize(..) => return Ok(false),
            _ => {}
        }
    }
}
