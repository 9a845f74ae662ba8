//! The civil calendar of a moment in UTC. Pure logic.

/// A moment, taken apart by the proleptic Gregorian calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// From 1970.
    pub year: u32,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 is Sunday.
    pub weekday: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59: leap seconds are not counted, as in POSIX.
    pub second: u8,
}

const DAYS_IN_400_YEARS: u32 = 146_097;

impl Civil {
    /// From seconds since 1970-01-01 UTC. Right up to the year 2200 and beyond; what does not fit 32 bits of days is
    /// cut off.
    pub fn new(unix_seconds: u64) -> Civil {
        let (days, seconds) = ((unix_seconds / 86_400) as u32, (unix_seconds % 86_400) as u32);
        // Counted from 1 March of a year divisible by 400, the leap day is the last of a year, a century and a cycle;
        // 1970-01-01 is 719,468 days after 1 March of the year 0.
        let day = days.saturating_add(719_468);
        let (cycle, day) = (day / DAYS_IN_400_YEARS, day % DAYS_IN_400_YEARS);
        let leap_days = day / 1460 - day / 36_524 + day / (DAYS_IN_400_YEARS - 1);
        let year = (day - leap_days) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        // March to July and August to December have 153 days each, as 31, 30, 31, 30, 31.
        let month = (5 * day + 2) / 153;
        let day_of_month = day - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        Civil {
            year: cycle * 400 + year + u32::from(month <= 2),
            month: month as u8,
            day: day_of_month as u8,
            // 1970 began on a Thursday.
            weekday: ((days as u64 + 4) % 7) as u8,
            hour: (seconds / 3600) as u8,
            minute: (seconds / 60 % 60) as u8,
            second: (seconds % 60) as u8,
        }
    }

    /// `Tue`, as RFC 5322 spells it.
    pub fn weekday_name(&self) -> &'static str {
        ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"][usize::from(self.weekday % 7)]
    }

    /// `Dec`.
    pub fn month_name(&self) -> &'static str {
        const NAMES: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        NAMES[usize::from(self.month - 1) % 12]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(unix: u64) -> (u32, u8, u8, u8, u8, u8, &'static str) {
        let c = Civil::new(unix);
        (c.year, c.month, c.day, c.hour, c.minute, c.second, c.weekday_name())
    }

    /// As GNU `date -u -d @N` says.
    #[test]
    fn known_moments() {
        assert_eq!(fields(0), (1970, 1, 1, 0, 0, 0, "Thu"));
        assert_eq!(fields(951_782_399), (2000, 2, 28, 23, 59, 59, "Mon"));
        assert_eq!(fields(951_782_400), (2000, 2, 29, 0, 0, 0, "Tue"));
        assert_eq!(fields(1_078_012_800), (2004, 2, 29, 0, 0, 0, "Sun"));
        assert_eq!(fields(1_234_567_890), (2009, 2, 13, 23, 31, 30, "Fri"));
        assert_eq!(fields(1_735_689_599), (2024, 12, 31, 23, 59, 59, "Tue"));
        assert_eq!(fields(2_147_483_648), (2038, 1, 19, 3, 14, 8, "Tue"));
        assert_eq!(fields(4_107_542_400), (2100, 3, 1, 0, 0, 0, "Mon"));
        assert_eq!(Civil::new(1_735_689_599).month_name(), "Dec");
    }

    #[test]
    fn days_follow_one_another_for_four_centuries() {
        let length = |c: &Civil| match c.month {
            2 if c.year.is_multiple_of(4)
                && (!c.year.is_multiple_of(100) || c.year.is_multiple_of(400)) =>
            {
                29
            }
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let mut before = Civil::new(0);
        for day in 1..u64::from(DAYS_IN_400_YEARS) {
            let now = Civil::new(day * 86_400);
            let expected = match (before.day == length(&before), before.month) {
                (false, month) => (before.year, month, before.day + 1),
                (true, 12) => (before.year + 1, 1, 1),
                (true, month) => (before.year, month + 1, 1),
            };
            assert_eq!((now.year, now.month, now.day), expected);
            assert_eq!(now.weekday, (before.weekday + 1) % 7);
            before = now;
        }
    }

    #[test]
    fn nonsense_does_not_panic() {
        for moment in [u64::MAX, u64::MAX / 2, 1 << 45] {
            let civil = Civil::new(moment);
            assert!((1..=12).contains(&civil.month) && (1..=31).contains(&civil.day));
            let _ = (civil.weekday_name(), civil.month_name());
        }
    }
}
