"""Small correct functions, to be broken and repaired. Each is total over its annotated types and fully specified by its docstring."""

# ruff: noqa: SIM108, SIM110 -- spelled out, so that there are places to break


def clamp(value: int, low: int, high: int) -> int:
    """Return value, but no less than low and no more than high; low where low is above high."""
    if value > high:
        value = high
    if value < low:
        value = low
    return value


def count_above(numbers: list[int], limit: int) -> int:
    """Count the numbers that are greater than limit."""
    count = 0
    for number in numbers:
        if number > limit:
            count += 1
    return count


def second_largest(numbers: list[int]) -> int:
    """Return the second largest of the different numbers; 0 where there are fewer than two."""
    different = sorted(set(numbers))
    if len(different) < 2:
        return 0
    return different[-2]


def running_sums(numbers: list[int]) -> list[int]:
    """Return the sums of the first number, the first two, the first three, and so on."""
    total = 0
    sums = []
    for number in numbers:
        total = total + number
        sums.append(total)
    return sums


def is_sorted(numbers: list[int]) -> bool:
    """Say whether no number is smaller than the one before it."""
    for index in range(1, len(numbers)):
        if numbers[index] < numbers[index - 1]:
            return False
    return True


def largest_gap(numbers: list[int]) -> int:
    """Return the largest difference between neighbors, whichever is greater; 0 where there are fewer than two numbers."""
    gap = 0
    for index in range(len(numbers) - 1):
        gap = max(gap, abs(numbers[index + 1] - numbers[index]))
    return gap


def rotate_left(numbers: list[int], places: int) -> list[int]:
    """Move the first numbers to the end, as many as places says, as often as it takes."""
    if len(numbers) == 0:
        return []
    places = places % len(numbers)
    return numbers[places:] + numbers[:places]


def every_second(numbers: list[int]) -> list[int]:
    """Return the first number, the third, the fifth, and so on."""
    found = []
    for index in range(0, len(numbers), 2):
        found.append(numbers[index])
    return found


def without_neighbours(numbers: list[int]) -> list[int]:
    """Leave out each number that equals the one before it."""
    kept: list[int] = []
    for number in numbers:
        if len(kept) == 0 or kept[-1] != number:
            kept.append(number)
    return kept


def index_of_smallest(numbers: list[int]) -> int:
    """Return where the smallest number stands, the first one of equals; -1 where there are none."""
    best = -1
    for index in range(len(numbers)):
        if best == -1 or numbers[index] < numbers[best]:
            best = index
    return best


def sum_between(numbers: list[int], low: int, high: int) -> int:
    """Add the numbers from low to high, both included."""
    total = 0
    for number in numbers:
        if low <= number and number <= high:
            total += number
    return total


def pairs_with_sum(numbers: list[int], wanted: int) -> int:
    """Count the pairs of places whose numbers add up to wanted."""
    count = 0
    for first in range(len(numbers)):
        for second in range(first + 1, len(numbers)):
            if numbers[first] + numbers[second] == wanted:
                count += 1
    return count


def longest_rise(numbers: list[int]) -> int:
    """Return the length of the longest run in which each number is greater than the one before it."""
    best = 0
    length = 0
    for index in range(len(numbers)):
        if index > 0 and numbers[index] > numbers[index - 1]:
            length = length + 1
        else:
            length = 1
        best = max(best, length)
    return best


def merged(first: list[int], second: list[int]) -> list[int]:
    """Return the numbers of both lists, smallest first."""
    rest = sorted(second)
    result = []
    for number in sorted(first):
        while len(rest) > 0 and rest[0] < number:
            result.append(rest.pop(0))
        result.append(number)
    return result + rest


def common_items(first: list[int], second: list[int]) -> list[int]:
    """Return the numbers of the first list that the second has too, each once, in the order of the first."""
    found: list[int] = []
    for number in first:
        if number in second and number not in found:
            found.append(number)
    return found


def majority(numbers: list[int]) -> int:
    """Return the number that more than half of the places hold; 0 where there is none."""
    for number in numbers:
        if numbers.count(number) * 2 > len(numbers):
            return number
    return 0


def digit_sum(number: int) -> int:
    """Add the decimal digits of the number, without its sign."""
    rest = abs(number)
    total = 0
    while rest > 0:
        total += rest % 10
        rest = rest // 10
    return total


def greatest_divisor(first: int, second: int) -> int:
    """Return the greatest number that divides both; signs do not count, and 0 where both are 0."""
    first, second = abs(first), abs(second)
    while second != 0:
        first, second = second, first % second
    return first


def is_prime(number: int) -> bool:
    """Say whether the number is a prime."""
    if number < 2:
        return False
    for divisor in range(2, number):
        if number % divisor == 0:
            return False
    return True


def count_divisors(number: int) -> int:
    """Count the positive divisors of the number, 1 and itself included; 0 where it is not positive."""
    count = 0
    for divisor in range(1, number + 1):
        if number % divisor == 0:
            count += 1
    return count


def triangle(number: int) -> int:
    """Add 1, 2, 3 and so on up to the number; 0 where it is not positive."""
    total = 0
    for each in range(1, number + 1):
        total += each
    return total


def fibonacci(number: int) -> int:
    """Return the Fibonacci number of that index: 0 has 0, 1 has 1; 0 where it is negative."""
    first, second = 0, 1
    for _ in range(number):
        first, second = second, first + second
    return first


def leap_year(year: int) -> bool:
    """Say whether the year is a leap year: divisible by 4, and not by 100 unless by 400."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def collatz_steps(number: int) -> int:
    """Count the steps to 1: halve an even number, else take three times the number plus 1; 0 where it is not positive."""
    steps = 0
    while number > 1:
        number = number // 2 if number % 2 == 0 else 3 * number + 1
        steps += 1
    return steps


def change_needed(price: int, paid: int) -> list[int]:
    """Return how many coins of 10, of 5 and of 1 make up what was paid too much; none where too little was paid."""
    rest = paid - price
    coins = []
    for coin in (10, 5, 1):
        count = max(0, rest // coin)
        coins.append(count)
        rest = rest - count * coin
    return coins


def reversed_words(text: str) -> str:
    """Return the words of the text in reverse order, with one space between them."""
    words = text.split()
    return " ".join(words[::-1])


def is_palindrome(text: str) -> bool:
    """Say whether the text reads the same backwards; capitals and spaces do not count."""
    letters = text.lower().replace(" ", "")
    for index in range(len(letters) // 2):
        if letters[index] != letters[len(letters) - 1 - index]:
            return False
    return True


def count_vowels(text: str) -> int:
    """Count the vowels a, e, i, o and u, capitals too."""
    count = 0
    for letter in text.lower():
        if letter in "aeiou":
            count += 1
    return count


def initials(text: str) -> str:
    """Return the first letter of each word, as capitals."""
    letters = ""
    for word in text.split():
        letters = letters + word[0].upper()
    return letters


def longest_word(text: str) -> str:
    """Return the longest word, the first one of equals; nothing where there is none."""
    best = ""
    for word in text.split():
        if len(word) > len(best):
            best = word
    return best


def shortened(text: str, width: int) -> str:
    """Return the text if it has at most width letters, else its beginning and a dot, width in all; nothing where width is not positive."""
    if width <= 0:
        return ""
    if len(text) <= width:
        return text
    return text[: width - 1] + "."


def run_lengths(text: str) -> list[int]:
    """Return how often each letter is repeated in a row, run after run."""
    lengths: list[int] = []
    for index in range(len(text)):
        if index > 0 and text[index] == text[index - 1]:
            lengths[-1] += 1
        else:
            lengths.append(1)
    return lengths


def depth(text: str) -> int:
    """Return how deep the brackets ( and ) nest at most; a ) too many does not count."""
    best = 0
    level = 0
    for letter in text:
        if letter == "(":
            level += 1
            best = max(best, level)
        if letter == ")" and level > 0:
            level -= 1
    return best


def column_name(number: int) -> str:
    """Return the spreadsheet column of that number: 1 is A, 26 is Z, 27 is AA; nothing where it is not positive."""
    name = ""
    while number > 0:
        number = number - 1
        name = chr(ord("A") + number % 26) + name
        number = number // 26
    return name


PROGRAMS = (
    clamp,
    count_above,
    second_largest,
    running_sums,
    is_sorted,
    largest_gap,
    rotate_left,
    every_second,
    without_neighbours,
    index_of_smallest,
    sum_between,
    pairs_with_sum,
    longest_rise,
    merged,
    common_items,
    majority,
    digit_sum,
    greatest_divisor,
    is_prime,
    count_divisors,
    triangle,
    fibonacci,
    leap_year,
    collatz_steps,
    change_needed,
    reversed_words,
    is_palindrome,
    count_vowels,
    initials,
    longest_word,
    shortened,
    run_lengths,
    depth,
    column_name,
)
