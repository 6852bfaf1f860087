//! Numbers in a readable form.

/// Three significant digits, without an exponent where a person would not use one.
pub fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        s if !s.is_finite() => "–".to_owned(),
        0.0 => "0".to_owned(),
        s if s >= 1e6 => format!("{value:.2e}"),
        s if s >= 99.95 => format!("{value:.0}"),
        s if s >= 9.995 => format!("{value:.1}"),
        s if s >= 0.9995 => format!("{value:.2}"),
        s if s >= 0.001 => format!("{value:.3}"),
        _ => format!("{value:.1e}"),
    }
}

/// Factor: `5.61×`.
pub fn factor(value: f64) -> String {
    format!("{}×", number(value))
}

/// CPUs, to a hundredth of one: `0.31`.
pub fn cpus(value: f64) -> String {
    format!("{value:.2}")
}

/// Share of one as a percentage: `81%`, `0.4%`.
pub fn share(value: f64) -> String {
    let pct = value * 100.0;
    if pct.abs() < 9.95 {
        format!("{pct:.1}%")
    } else {
        format!("{pct:.0}%")
    }
}

/// Count or rate: `712 k`, `1.25 M`.
pub fn scaled(value: f64) -> String {
    match value.abs() {
        s if s >= 999.5e6 => format!("{:.2} G", value / 1e9),
        s if s >= 999.5e3 => format!("{:.2} M", value / 1e6),
        s if s >= 999.5 => format!("{:.0} k", value / 1e3),
        _ => format!("{value:.0}"),
    }
}

/// Number of CPUs in words: `1 CPU`, `1.5 CPUs`.
pub fn cpu_count(cpus: f64) -> String {
    let many = if cpus == 1.0 { "" } else { "s" };
    format!("{cpus} CPU{many}")
}

/// Binary size: `12.5 MiB`.
pub fn bytes(value: u64) -> String {
    let mib = value as f64 / f64::from(1 << 20);
    if mib >= 0.1 {
        format!("{mib:.1} MiB")
    } else {
        format!("{:.1} KiB", value as f64 / 1024.0)
    }
}

/// Cuts `text` to at most `limit` characters, and replaces control characters.
pub fn short(text: &str, limit: usize) -> String {
    let clean: Vec<char> = text
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    if clean.len() <= limit {
        return clean.into_iter().collect();
    }
    let mut cut: String = clean[..limit.saturating_sub(1)].iter().collect();
    cut.push('…');
    cut
}
